"""A page for people: what every λ and threshold would mean for them, in one file, offline."""

from lossdial.explorer.page import Page, explore, points_from, read_points
from lossdial.explorer.payload import FORMAT as POINTS_FORMAT
from lossdial.explorer.payload import Unlabelled

__all__ = ["POINTS_FORMAT", "Page", "Unlabelled", "explore", "points_from", "read_points"]
