"""The scoreboard: one training against everybody else, on tables and on image features."""

from lossdial.experiments.scoreboard.report import report
from lossdial.experiments.scoreboard.rows import Board, Row
from lossdial.experiments.scoreboard.running import estimate, play, tasks

__all__ = ["Board", "Row", "estimate", "play", "report", "tasks"]
