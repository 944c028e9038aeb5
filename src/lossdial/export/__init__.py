"""A model for other runtimes: one ONNX file that takes raw rows, and a card that says what it is."""

from lossdial.export.card import model_card
from lossdial.export.comparison import Check
from lossdial.export.graph import Exported, to_onnx
from lossdial.export.nodes import ExportError
from lossdial.export.session import OnnxAnswers, OnnxModel

__all__ = ["Check", "ExportError", "Exported", "OnnxAnswers", "OnnxModel", "model_card", "to_onnx"]
