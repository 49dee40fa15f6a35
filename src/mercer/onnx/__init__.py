"""A fitted model as an ONNX graph, checked against the runtime that will run it."""

from mercer.onnx.export import register, to_onnx
from mercer.onnx.verify import Agreement, verify

__all__ = ["Agreement", "register", "to_onnx", "verify"]
