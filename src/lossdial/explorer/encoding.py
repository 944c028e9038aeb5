"""Arrays as text: order-preserving integers, steps, byte planes, deflate, base64.

Sorted thresholds differ little from their neighbours and counts fall by small numbers, so both are written as steps.
Their bytes are laid out plane by plane (all lowest bytes, then all second bytes, …): the high planes are nearly all
zero, and deflate folds them away. `static/js/codec.js` reads it.
"""

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.checks import FloatArray

Steps = Literal["none", "rising", "falling"]
"""Whether an array is written as its values or as the steps between them, modulo its width."""


def ordered(values: FloatArray) -> NDArray[np.unsignedinteger[Any]]:
    """Floats as unsigned integers of their width in the same order.

    >>> ordered(np.float32([-1.0, 0.0, 2.0])).tolist()
    [1082130431, 2147483648, 3221225472]
    """
    kind: Any = np.uint32 if values.dtype == np.float32 else np.uint64
    top = kind(1) << kind(8 * kind(0).nbytes - 1)
    bits = np.ascontiguousarray(values + values.dtype.type(0)).view(kind)  # -0.0 + 0.0 is 0.0, which equals it
    return np.asarray(np.where(bits & top, ~bits, bits | top))


@dataclass(frozen=True)
class Streams:
    """Named arrays, kept as byte planes, to be written as one text."""

    parts: list[bytes] = field(default_factory=list)
    index: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, values: ArrayLike, steps: Steps = "none") -> None:
        """Add whole numbers from 0 up, or floats: float32 as such and others as float64."""
        array = np.asarray(values).ravel()
        if array.dtype.kind in "iu":
            codes, kind = array.astype(np.uint64), "count"
            width = max(1, (int(codes.max(initial=0)).bit_length() + 7) // 8)
        else:
            array = array if array.dtype == np.float32 else array.astype(np.float64)
            codes, kind, width = ordered(array), array.dtype.name, array.dtype.itemsize
        if steps != "none":
            before = np.concatenate([codes[:1] * 0, codes[:-1]])
            codes = codes - before if steps == "rising" else before - codes
        planes = [((codes >> codes.dtype.type(8 * k)) & codes.dtype.type(255)).astype(np.uint8) for k in range(width)]
        self.parts.append(b"".join(plane.tobytes() for plane in planes))
        self.index.append({"name": name, "kind": kind, "width": width, "size": int(codes.size), "steps": steps})

    def to_json(self) -> dict[str, Any]:
        """The index, and all planes as one deflated text."""
        packed = zlib.compressobj(6, zlib.DEFLATED, -15)
        data = packed.compress(b"".join(self.parts)) + packed.flush()
        return {"index": self.index, "data": base64.b64encode(data).decode()}
