from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdial.explorer.payload import Streams, ordered


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_codes_keep_the_order(kind: type) -> None:
    info = np.finfo(kind)
    values = [info.min, -1.5, -info.tiny, 0.0, info.tiny, 1e-3, 1.0, np.nextafter(kind(1), kind(2)), info.max]
    assert (np.diff(ordered(np.array(values, kind)).astype(object)) > 0).all()
    assert ordered(kind([-0.0]))[0] == ordered(kind([0.0]))[0]


@pytest.mark.parametrize("size", [0, 1, 500])
def test_the_page_reads_what_was_written(javascript: Callable[..., Any], size: int) -> None:
    rng = np.random.default_rng(0)
    values = {
        "float32": np.sort(rng.normal(size=size).astype(np.float32)),
        "float64": np.sort(rng.normal(size=size) * 1e200),
        "count": np.sort(rng.integers(0, 70_000, size)),
        "large count": rng.integers(0, 2**32, size),
    }
    streams = Streams()
    for name, array in values.items():
        streams.add(name, array)
        streams.add(f"{name} rising", array, "rising")
        streams.add(f"{name} falling", array[::-1], "falling")
    call = "decode(given).then(f => Object.fromEntries(Object.entries(f).map(([k, v]) => [k, [...v]])))"
    read = javascript("codec", call, streams.to_json())
    for name, array in values.items():
        assert read[name] == read[f"{name} rising"] == read[f"{name} falling"][::-1] == array.tolist()
