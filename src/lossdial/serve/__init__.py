"""An API for services: the model, its operating points and the page, over HTTP."""

from lossdial.serve.limits import Limits
from lossdial.serve.running import Server, serve

__all__ = ["Limits", "Server", "serve"]
