"""``lossdial demo``."""


def demo(out: str = "demo") -> None:
    """Demo."""
