"""Learners outside of Python: as ONNX graphs."""
