"""A model for other runtimes: one ONNX file that takes raw rows, and a card that says what it is."""

from lossdial.export.card import model_card
from lossdial.export.graph import Exported, to_onnx
from lossdial.export.nodes import ExportError
from lossdial.export.session import OnnxModel

__all__ = ["ExportError", "Exported", "OnnxModel", "model_card", "to_onnx"]
