"""Models that lie in a file, and PyTorch models exported into one: what ONNX Runtime and OpenVINO share.

inputs      what a file takes, sizes that it leaves open, arrays to feed it
source      the file of a target: the user's own, or an export in the cache
exporting   the program that exports a PyTorch target, in a process of its own
content     what an export depends on, as one hash
graph       opset, parameters and FLOPs of an ONNX file
model       a file with a runtime around it, as the protocol asks
"""

EXPORTS_WITH = ("torch", "onnx", "onnxscript")
"""Packages that turn a target of PyTorch into a file."""
