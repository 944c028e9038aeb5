"""Labels of a later file as those of training; which label is looked for is tested with the base."""

import numpy as np
import pytest

from lossdial.base.labels import match_labels


def test_labels_of_another_file() -> None:
    for written in (["1", "0"], [1.0, 0.0], [1, 0], [True, False], ["1", " 0 "]):
        matched = match_labels(written, [0, 1])
        assert matched.tolist() == [1, 0]
        assert matched.dtype == np.int64
    assert match_labels(["ill"], ["well", "ill"]).tolist() == ["ill"]
    assert match_labels([1, 0], ["0", "1"]).tolist() == ["1", "0"]
    with pytest.raises(ValueError, match="column 'state' holds 'dead'; the model knows 'well', 'ill'"):
        match_labels(["ill", "dead"], ["well", "ill"], "column 'state'")
