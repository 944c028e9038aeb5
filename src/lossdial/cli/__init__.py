"""The ``lossdial`` command."""

from lossdial.cli.main import main

__all__ = ["main"]
