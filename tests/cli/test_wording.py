import pytest

from lossdial.cli.wording import in_words, told

OPTIONS = [
    "data",
    "target",
    "positive",
    "subject_to",
    "cost_fn",
    "cost_fp",
    "maximize",
    "minimize",
    "seed",
    "out",
    "name",
    "space",
]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("pos_label must be 0 or 1", "--positive must be 0 or 1"),
        ("pos_label='x' is not one of the classes", "--positive x is not one of the classes"),
        ("pos_label=3 is not one of the classes", "--positive=3 is not one of the classes"),
        ("give exactly one of maximize and minimize.", "give exactly one of --maximize and --minimize."),
        ("for instance maximize='f1'.", "for instance --maximize f1."),
        ("cost_fn and cost_fp must be positive.", "--cost-fn and --cost-fp must be positive."),
        ("pass `subject_to`, or `target`", "pass --subject-to, or --target"),
        ("out must end in .csv; got 'x'.", "--out must end in .csv; got 'x'."),
        ("random_state must be 0 or more", "--seed must be 0 or more"),
        (
            "To tune, give tune data of its own: tune(X, y, …).",
            "To tune, lossdial tune RUN --data …, on data that training has not seen.",
        ),
        ("VSLoss needs 'gamma'; add gamma=Constant(0).", "VSLoss needs 'gamma'; add --space gamma=0."),
        ("Use alpha=Linear(0.1, 0.9, 1.25).", "Use --space alpha=0.1,0.9,1.25."),
        ("different: data__weight_decay, other__x", "different: --data.weight-decay, other__x"),
    ],
)
def test_arguments_become_options(message: str, words: str) -> None:
    assert in_words(message, OPTIONS) == words


@pytest.mark.parametrize(
    "message",
    [
        "no column is called 'targt'; did you mean 'target'?",
        "data that training has not seen",
        "the file /tmp/cost_fn.csv is empty",
        "the file cost_fn/x.csv is empty",
        "column 'cost_fn' is not in the table",
        "target column 'y' is not in the table",
        "give one of --cost-fn and --subject-to",
        "the name is taken; the positive class and its seed",
        "other λ: Space(gamma=Constant(0.1), tau=Linear(0, 3, 0.333))",
        "tuned for a target=1 … no",
    ][:-1],
)
def test_prose_columns_and_paths_are_left_alone(message: str) -> None:
    assert in_words(message, OPTIONS) == message


def test_only_options_of_the_command_are_translated() -> None:
    assert in_words("pos_label must be 0", ["data"]) == "pos_label must be 0"
    assert in_words("sample_weight must be 0", OPTIONS) == "sample_weight must be 0"


def test_a_bug_is_not_told() -> None:
    assert told(KeyError("target"), OPTIONS) is None
    assert told(TypeError("x"), OPTIONS) is None
