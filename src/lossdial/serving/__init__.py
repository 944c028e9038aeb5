"""An API for services: the model, its operating points and the page, over HTTP."""

from lossdial.serving.limits import Limits
from lossdial.serving.running import Server, serve

__all__ = ["Limits", "Server", "serve"]
