"""Transformer operators of newer opsets, made of smaller layers."""

from __future__ import annotations

from twinnet.onnx.operators._node import Node, op

_KNOWN = {"is_causal", "scale", "softcap", "q_num_heads", "kv_num_heads", "softmax_precision"}
_KNOWN |= {"qk_matmul_output_mode"}  # selects the scores to output, and none are output


@op("Attention")
def _attention(node: Node) -> None:
    if len(node.inputs) > 4 or len(node.outputs) > 1:
        raise ValueError("attention with a cache or with its scores as output")
    unknown = set(node.attrs) - _KNOWN
    if unknown:
        raise ValueError(f"attention with {', '.join(sorted(unknown))}")
    heads, kv_heads = node.get("q_num_heads"), node.get("kv_num_heads")
    q, k, v = node.inputs[:3]
    flat = node.rank(0) == 3
    if flat:
        q, k, v = (
            _to_heads(node, name, count, part)
            for name, count, part in ((q, heads, "q"), (k, kv_heads, "k"), (v, kv_heads, "v"))
        )
    operands: list[str | None] = [q, k, v]
    if node.input(3) is not None:
        operands.append(node.input(3))
    attrs = {
        "scale": node.get("scale"),
        "is_causal": bool(node.get("is_causal", 0)),
        "softcap": node.get("softcap", 0.0),
    }
    if not flat:
        node.emit("attention", operands, **attrs)
        return
    made = node.emit("attention", operands, [node.temp("heads")], **attrs)
    turned = node.emit("transpose", [made], [node.temp("rows")], perm=(0, 2, 1, 3))
    node.emit("reshape", [turned], shape=(0, 0, -1))


def _to_heads(node: Node, name: str | None, heads: int, part: str) -> str:
    split = node.emit("reshape", [name], [node.temp(f"{part}.split")], shape=(0, 0, heads, -1))
    return node.emit("transpose", [split], [node.temp(f"{part}.heads")], perm=(0, 2, 1, 3))


@op("RotaryEmbedding")
def _rotary(node: Node) -> None:
    if node.input(3) is None or node.get("rotary_embedding_dim", 0) or node.get("interleaved", 0):
        raise ValueError("rotary embedding without positions, of part of the head, or interleaved")
    x, cos, sin, position = node.inputs[:4]
    flat = node.rank(0) == 3
    heads = node.get("num_heads", 0)
    if flat:  # [batch, time, heads * size]
        x = node.emit("reshape", [x], [node.temp("split")], shape=(0, 0, heads, -1))
    axis = 2 if flat else 1
    tables = []
    for name, part in ((cos, "cos"), (sin, "sin")):
        rows = node.emit("gather", [name, position], [node.temp(part)], axis=0)
        tables.append(node.emit("unsqueeze", [rows], [node.temp(f"{part}.wide")], axes=(axis,)))
    first, second = node.temp("first"), node.temp("second")
    node.emit("split", [x], [first, second], axis=-1, count=2)

    def product(a: str, b: str, part: str) -> str:
        return node.emit("mul", [a, b], [node.temp(part)])

    real = node.emit(
        "sub", [product(first, tables[0], "fc"), product(second, tables[1], "ss")], [node.temp("real")]
    )
    imaginary = node.emit(
        "add", [product(first, tables[1], "fs"), product(second, tables[0], "sc")], [node.temp("imaginary")]
    )
    if flat:
        joined = node.emit("concat", [real, imaginary], [node.temp("joined")], axis=-1)
        node.emit("reshape", [joined], shape=(0, 0, -1))
    else:
        node.emit("concat", [real, imaginary], axis=-1)
