"""ONNX models as compute graphs."""
