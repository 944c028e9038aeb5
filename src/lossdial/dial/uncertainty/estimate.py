"""A figure and how sure it is, and how both are printed."""

import math
from dataclasses import dataclass


def rounded(value: float, decimals: int = 3, whole: float = 1.0) -> str:
    """A figure with so many decimals, or with more where they are needed to show two significant digits.

    Two digits are also kept of what a share lacks of the `whole`, so that a miss in 10,000 is not rounded away.

    >>> rounded(0.8734), rounded(0.00042), rounded(0.99958), rounded(0), rounded(1)
    ('0.873', '0.00042', '0.99958', '0.000', '1.000')
    """
    size = abs(value)
    least = whole - size if whole / 2 < size < whole else size
    if not 0 < least < math.inf:
        return f"{value:.{decimals}f}"
    exponent = int(f"{least:.1e}".partition("e")[2])
    more = 1 - exponent if exponent >= -9 else 0  # what is smaller is a float's own noise
    return f"{value:.{max(decimals, more)}f}"


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{rounded(self.value)} [{rounded(self.low)}, {rounded(self.high)}]"
