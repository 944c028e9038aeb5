import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lossdial.explorer.encoding import Streams, decode, ordered, unordered


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_codes_keep_the_order_and_come_back(kind: type) -> None:
    info = np.finfo(kind)
    values = np.array(
        [info.min, -1.5, -info.tiny, 0.0, info.tiny, 1e-3, 1.0, np.nextafter(kind(1), kind(2)), info.max], kind
    )
    codes = ordered(values)
    assert (np.diff(codes.astype(object)) > 0).all()
    np.testing.assert_array_equal(unordered(codes), values)
    assert ordered(kind([-0.0]))[0] == ordered(kind([0.0]))[0]


@given(
    arrays(np.float64, st.integers(0, 50), elements=st.floats(-1e300, 1e300)),
    arrays(np.float32, st.integers(0, 50), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 2**32 - 1)),
)
def test_streams_come_back(wide: np.ndarray, narrow: np.ndarray, counts: np.ndarray) -> None:
    streams = Streams()
    streams.floats("wide", wide)
    streams.floats("wide steps", wide, "rising")
    streams.floats("narrow", narrow, "falling")
    streams.counts("counts", counts)
    streams.counts("falling", counts, "falling")
    streams.counts("rising", counts, "rising")
    found = decode(streams.to_json())
    for name in ("wide", "wide steps"):
        np.testing.assert_array_equal(found[name], wide)
    np.testing.assert_array_equal(found["narrow"], narrow)
    for name in ("counts", "falling", "rising"):
        np.testing.assert_array_equal(found[name], counts)


def test_the_page_reads_the_same(javascript) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    arrays_ = {
        "narrow": np.sort(rng.normal(size=500).astype(np.float32)),
        "wide": np.sort(rng.normal(size=500) * 1e200),
        "counts": np.sort(rng.integers(0, 70_000, 500))[::-1],
        "large": rng.integers(0, 2**32, 100),
    }
    streams = Streams()
    streams.floats("narrow", arrays_["narrow"], "rising")
    streams.floats("narrow down", arrays_["narrow"][::-1], "falling")
    streams.floats("wide", arrays_["wide"], "rising")
    streams.floats("wide down", arrays_["wide"][::-1], "falling")
    streams.counts("counts", arrays_["counts"], "falling")
    streams.counts("large", arrays_["large"])
    found = javascript(
        "codec",
        "decode(given).then(f => Object.fromEntries(Object.entries(f).map(([k, v]) => [k, [...v]])))",
        streams.to_json(),
    )
    for name, values in arrays_.items():
        assert found[name] == values.tolist(), name
    assert found["narrow down"] == arrays_["narrow"][::-1].tolist()
    assert found["wide down"] == arrays_["wide"][::-1].tolist()
