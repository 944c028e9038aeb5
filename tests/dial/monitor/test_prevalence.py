import numpy as np
import pytest

from lossdial.dial.monitor.prevalence import log_odds


def test_adding_log_odds_is_bayes_rule():
    p, source, other = np.array([0.1, 0.5, 0.9]), 0.2, 0.01
    up, down = p * other / source, (1 - p) * (1 - other) / (1 - source)
    moved = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + log_odds(other) - log_odds(source))))
    np.testing.assert_allclose(moved, up / (up + down))
    assert log_odds(0.5) == 0
    with pytest.raises(ValueError, match="prevalence must lie strictly"):
        log_odds(1.0)
