import pytest

from lossdial.base.errors import InputError
from lossdial.dial.metrics.registry import PAPER_METRICS, REPORT, as_metric, known_metrics


@pytest.mark.parametrize("name", [*known_metrics(), *PAPER_METRICS, *REPORT])
def test_every_known_name_resolves_to_itself(name):
    assert as_metric(name).name == name


def test_bare_names_take_their_default_and_aliases_resolve():
    assert as_metric("precision_at_recall").name == "precision_at_recall@0.99"
    assert as_metric("f_beta@1").name == "f1"
    assert as_metric("tpr") is as_metric("recall")
    assert as_metric(as_metric("auc")) is as_metric("auc")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("recal", "Did you mean 'recall'"),
        ("precision_at_recall@high", "precision_at_recall@0.99"),
        ("auc@3", "'auc'"),
        ("expected_cost", "{cost_fn} and {cost_fp}"),
    ],
)
def test_wrong_names_say_what_to_write(name, remedy):
    with pytest.raises(InputError) as raised:
        as_metric(name, "subject_to")
    assert raised.value.argument == "subject_to"
    assert remedy in raised.value.remedy


@pytest.mark.parametrize(
    ("name", "argument", "got"),
    [
        ("precision_at_recall@1.2", "precision_at_recall", "1.2"),
        ("recall_at_fpr@-0.1", "recall_at_fpr", "-0.1"),
        ("f_beta@0", "beta", "0.0"),
        ("net_benefit@0", "net_benefit", "0.0"),
        ("calibration_error@0", "bins", "0.0"),
    ],
)
def test_parameters_out_of_range_are_named(name, argument, got):
    with pytest.raises(InputError) as raised:
        as_metric(name)
    assert (raised.value.argument, raised.value.got) == (argument, got)
