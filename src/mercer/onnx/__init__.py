"""A fitted model as an ONNX graph, checked against the runtime that will run it."""
