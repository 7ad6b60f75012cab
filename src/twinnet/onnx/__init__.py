"""Everything about ONNX files that several rooms need.

`network` loads a file, `external` its weights, wherever they lie; `graph` and `cut` take models apart, `shapes` infers
shapes, `read` and `operators` turn a model into canonical layers, `export` turns any network into ONNX.
"""
