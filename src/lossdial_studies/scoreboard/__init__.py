"""The scoreboard: one training against everybody else, on tables and on image features."""

from lossdial_studies.scoreboard.report import report
from lossdial_studies.scoreboard.running import Board, Row, estimate, play, tasks

__all__ = ["Board", "Row", "estimate", "play", "report", "tasks"]
