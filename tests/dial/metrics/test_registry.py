import pytest

from lossdial.dial.metrics.registry import as_metric, known_metrics


def test_every_known_name_resolves_to_itself():
    for name in known_metrics():
        assert as_metric(name).name == name


def test_bare_names_take_their_default_and_aliases_resolve():
    assert as_metric("precision_at_recall").name == "precision_at_recall@0.99"
    assert as_metric("f_beta@1").name == "f1"
    assert as_metric("tpr") is as_metric("recall")
    assert as_metric(as_metric("auc")) is as_metric("auc")


def test_unknown_names_list_the_known_and_the_closest():
    with pytest.raises(ValueError, match=r"constraint 'recal' is unknown. Did you mean 'recall'\? Known: .*precision"):
        as_metric("recal", "constraint")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("precision_at_recall@high", "'high' is not a number; write precision_at_recall@0.99"),
        ("auc@3", "auc takes no parameter"),
        ("precision_at_recall@2", r"must lie in \[0, 1\]; got 2"),
        ("expected_cost", "give cost_fn and cost_fp"),
    ],
)
def test_wrong_parameters_say_what_to_write(name, message):
    with pytest.raises(ValueError, match=message):
        as_metric(name)
