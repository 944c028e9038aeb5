import numpy as np
import pytest

from lossdial.base.errors import InputError
from lossdial.dial.checks import (
    as_labels,
    as_rows,
    require_both_classes,
    require_costs,
    require_finite,
    require_prevalence,
)


@pytest.mark.parametrize(
    ("check", "argument", "fragment"),
    [
        (lambda: as_labels([0, 1, 2]), "y", "2"),
        (lambda: as_labels([[0, 1]]), "y", "(1, 2)"),
        (lambda: as_rows([0.1, 0.2], 3), "score", "(2,)"),
        (lambda: require_both_classes(as_labels([0, 0])), "y", "no positives among these 2 samples"),
        (lambda: require_both_classes(as_labels([1, 1])), "y", "no negatives among these 2 samples"),
        *((lambda bad=bad: require_prevalence(bad), "prevalence", str(bad)) for bad in (0, 1, -0.1, 1.5, np.nan)),
        *((lambda bad=bad: require_costs(bad, 1), "cost_fn", str(bad)) for bad in (0, -1, np.inf, np.nan)),
        *((lambda bad=bad: require_costs(1, bad), "cost_fp", str(bad)) for bad in (0, -1, np.inf, np.nan)),
        *(
            (lambda bad=bad: require_finite(np.array([[0.0, 0.0], [0.0, bad]])), "score", "at sample 1, column 1")
            for bad in (np.nan, np.inf, -np.inf)
        ),
    ],
)
def test_what_is_wrong_is_named(check, argument, fragment):
    with pytest.raises(InputError) as raised:
        check()
    assert raised.value.argument == argument
    assert fragment in str(raised.value)
