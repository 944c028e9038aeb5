import numpy as np
import pytest

from lossdial.dial.monitor.prevalence import log_odds, move_prevalence


def test_moving_the_prevalence_is_bayes_rule():
    p, source, target = np.array([0.1, 0.5, 0.9]), 0.2, 0.01
    up, down = p * target / source, (1 - p) * (1 - target) / (1 - source)
    moved = 1 / (1 + np.exp(-move_prevalence(np.log(p / (1 - p)), source, target)))
    np.testing.assert_allclose(moved, up / (up + down))
    assert log_odds(0.5) == 0
    with pytest.raises(ValueError, match="prevalence must lie strictly"):
        move_prevalence(0.0, 0.1, 1.0)
