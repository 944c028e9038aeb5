"""An API for services: the model, its operating points and the page, over HTTP."""

from lossdial.serve.guard import Limits
from lossdial.serve.server import Server

__all__ = ["Limits", "Server"]
