import pickle

from lossdial.base.errors import InputError


def test_a_mistake_keeps_its_parts_and_every_face_spells_arguments_its_own_way() -> None:
    error = InputError("recall", "must be kept; see {subject_to}", got=[2.0], remedy="Give {confidence=0.95}.")
    assert (error.argument, error.problem, error.got) == ("recall", "must be kept; see {subject_to}", "[2.0]")
    assert str(error) == "recall must be kept; see subject_to; got [2.0]. Give confidence=0.95."
    typed = error.told(lambda name, value: f"--{name.replace('_', '-')}" + ("" if value is None else f" {value}"))
    assert typed == "--recall must be kept; see --subject-to; got [2.0]. Give --confidence 0.95."


def test_what_came_is_never_taken_for_an_argument() -> None:
    assert (
        str(InputError("name", "must be a word", got="{confidence=1}")) == "name must be a word; got '(confidence=1)'."
    )


def test_a_mistake_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(InputError("", "nothing can be done", got=float("inf"), remedy="Stop.")))
    assert str(error) == "nothing can be done; got inf. Stop."
