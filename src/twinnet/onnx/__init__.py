"""ONNX files, for all other packages.

`network` loads a file, `external` its weights, inside the file or beside it; `graph` and `cut` take models apart,
`shapes` infers shapes, `read` and `operators` turn a model into canonical layers, `export` turns any network into ONNX.
"""
