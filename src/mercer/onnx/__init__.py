"""A fitted model as an ONNX graph, checked against the runtime that will run it.

Examples
--------
>>> import numpy as np
>>> from mercer import KernelPCA
>>> from mercer.onnx import to_onnx
>>> proto = to_onnx(KernelPCA(2).fit(np.random.default_rng(0).standard_normal((50, 3))))
>>> [output.name for output in proto.graph.output]
['scores']
"""

from mercer.onnx.export import register, to_onnx
from mercer.onnx.verify import Agreement, verify

__all__ = ["Agreement", "register", "to_onnx", "verify"]
