"""Architectures quantised by the book: `python -m tools.by_the_book [--out FILE] [--only NAME ...] [--ways WAY ...]`.

Each architecture (timm, transformers, PyTorch; small, random weights, statistics from data) is quantised in each way
and checked, each architecture in a process of its own. A row of JSON is added to FILE for each check; rows that are
there are not made again: a run goes on where it was stopped. The table of all rows goes to the screen. timm and
torchvision are not among twinnet's extras: `pip install --no-deps timm torchvision`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinnet.errors import TwinnetError

__all__ = ["ARCHITECTURES", "WAYS", "Row", "check", "main", "table"]

ROOT = Path(__file__).parents[1]

WAYS = {
    "static": "onnxruntime?quantize=static&reduce_range=1",
    "dynamic": "onnxruntime?quantize=dynamic&reduce_range=1",
    "weights": "onnxruntime?quantize=weights",
    "float16": "onnxruntime?quantize=float16",
    "bfloat16": "torch?dtype=bfloat16",
    "operators": "onnxruntime?quantize=static&reduce_range=1&format=qoperator",
    "plain": "onnxruntime?quantize=static",
}
"""`operators` and `plain` (8 bits, which saturate on processors without VNNI) stand beside the five."""


@dataclass
class Row:
    """What a check of one architecture in one way said."""

    architecture: str
    way: str
    verdict: str
    seconds: float
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: str = ""


# -- the networks ----------------------------------------------------------------------------------------------------


def _name_operators() -> None:
    """PyPI's torchvision looks for CUDA. None of its operators is needed, but their names, where it is imported."""
    import torch

    if _KEPT:
        return
    names = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        names.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(names)


_KEPT: list[Any] = []
"""Names of operators exist as long as their library object does."""


def _timm(name: str, size: int = 64, **settings: Any) -> tuple[Any, Any]:
    import torch

    _name_operators()
    timm = importlib.import_module("timm")  # not among the extras
    return timm.create_model(name, num_classes=16, **settings), torch.rand(1, 3, size, size)


def _text(kind: str, **settings: Any) -> tuple[Any, Any]:
    import torch
    import transformers

    _name_operators()
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**settings))
    ids = torch.randint(0, 90, (1, 12))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _recurrent(kind: str) -> tuple[Any, Any]:
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = getattr(nn, kind)(24, 32, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(x)[0])

    return Reader(), torch.randn(1, 20, 24)


def _unet() -> tuple[Any, Any]:
    import torch
    from torch import nn

    def block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = block(3, 8), block(8, 16), block(16, 32)
            self.up, self.up2 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 4, 2, 1)
            self.d, self.e, self.out = block(32, 16), block(16, 8), nn.Conv2d(8, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.a(x)
            b = self.b(nn.functional.max_pool2d(a, 2))
            c = self.c(nn.functional.avg_pool2d(b, 2))
            d = self.d(torch.cat([self.up(c), b], 1))
            return self.out(self.e(torch.cat([self.up2(d), a], 1)))

    return UNet(), torch.rand(1, 3, 32, 32)


ARCHITECTURES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "Hiera": lambda: _timm("hiera_tiny_224", img_size=64, embed_dim=32, stages=(1, 1, 2, 1)),
    "NesT": lambda: _timm("nest_tiny", img_size=64),
    "ViT": lambda: _timm("vit_tiny_patch16_224", img_size=64, depth=3),
    "BEiT": lambda: _timm("beit_base_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4),
    "CaiT": lambda: _timm("cait_xxs24_224", img_size=64, depth=2),
    "Swin": lambda: _timm("swin_tiny_patch4_window7_224", window_size=4, **_SWIN),
    "PVT v2": lambda: _timm("pvt_v2_b0"),
    "XCiT": lambda: _timm("xcit_nano_12_p16_224", depth=2),
    "CoaT": lambda: _timm("coat_lite_tiny", img_size=64),
    "MobileViT": lambda: _timm("mobilevit_xxs", 128),
    "EdgeNeXt": lambda: _timm("edgenext_xx_small"),
    "PoolFormer": lambda: _timm("poolformer_s12"),
    "MLP-Mixer": lambda: _timm("mixer_s32_224", img_size=64),
    "BERT": lambda: _text("Bert", hidden_size=64, intermediate_size=128, **_BERT),
    "GPT-2": lambda: _text("GPT2", n_embd=64, n_layer=2, n_head=4, vocab_size=99, use_cache=False),
    "LSTM": lambda: _recurrent("LSTM"),
    "GRU": lambda: _recurrent("GRU"),
    "U-Net": _unet,
    "ResNet": lambda: _timm("resnet18"),
    "RepVGG": lambda: _timm("repvgg_a0"),
    "DenseNet": lambda: _timm("densenet121", growth_rate=16, block_config=(2, 2, 2, 2)),
    "MobileNet v3": lambda: _timm("mobilenetv3_small_050"),
    "EfficientNet": lambda: _timm("test_efficientnet"),
    "ConvNeXt": lambda: _timm("convnext_atto", depths=(1, 1, 2, 1)),
    "RegNet": lambda: _timm("regnety_002"),
    "Inception v3": lambda: _timm("inception_v3", 96),
}
_SWIN = {"img_size": 64, "embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4)}
_BERT = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}


def _awake(model: Any, inputs: Any) -> None:
    """Give a network without training activations of ordinary size: no layer is switched off, norms fit their data."""
    import torch
    from torch import nn

    for module in model.modules():
        for param in module.parameters(recurse=False):
            with torch.no_grad():
                if param.dim() >= 2 and not bool(param.any()):
                    param.normal_(std=0.1)
                elif param.numel() > 1 and 0 < float(param.abs().max()) <= 1e-3:  # a layer scale
                    param.fill_(0.5)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d | nn.BatchNorm1d)]
    model.eval()
    for norm in norms:
        norm.train()
        norm.momentum = None
        with torch.no_grad():
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.2)
    if norms:
        with torch.no_grad():
            for k in range(3):
                model(torch.rand(4, *inputs.shape[1:], generator=torch.Generator().manual_seed(k)))
    model.eval()


def check(architecture: str, way: str) -> Row:
    """Quantise one architecture in one way and check it."""
    import torch

    import twinnet

    torch.manual_seed(7)
    model, inputs = ARCHITECTURES[architecture]()
    _awake(model, inputs)
    start = time.process_time()
    try:
        found = twinnet.check(model, inputs, WAYS[way], keep="none")
    except TwinnetError as refused:
        return Row(architecture, way, "ERROR", time.process_time() - start, error=str(refused))
    assert isinstance(found, twinnet.Result)
    row = Row(architecture, way, found.verdict, round(time.process_time() - start, 1), error=found.error)
    row.findings = [
        {
            "site": f.site.label,
            "segment": list(f.segment),
            "born": f.born,
            "ratio": f.ratio,
            "reason": None if f.reason is None else str(f.reason),
            "cause": None if f.cause is None else f.cause.sentence,
            "explains": None if f.cause is None else f.cause.explains,
        }
        for f in found.findings
    ]
    return row


# -- all of them -----------------------------------------------------------------------------------------------------


def _read(file: Path) -> dict[tuple[str, str], Row]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {(r.architecture, r.way): r for r in rows}


def _add(file: Path, row: Row) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(vars(row)) + "\n")
    print(f"{row.verdict:5} {row.seconds:6.1f} s  {row.architecture}, {row.way}", file=sys.stderr, flush=True)


def table(rows: Mapping[tuple[str, str], Row]) -> str:
    """The verdicts as Markdown, a line for each architecture.

    >>> print(table({("ViT", "static"): Row("ViT", "static", "PASS", 1.0)}))
    | | static |
    |---|---|
    | ViT | PASS |
    """
    ways = [w for w in WAYS if any(way == w for _, way in rows)]
    lines = ["| | " + " | ".join(ways) + " |", "|---" * (len(ways) + 1) + "|"]
    for name in dict.fromkeys(architecture for architecture, _ in rows):
        cells = [rows[name, w].verdict if (name, w) in rows else "" for w in ways]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _here(name: str, ways: Sequence[str], file: Path) -> None:
    """Check one architecture in this process; each row is written as it is made."""
    for way in ways:
        _add(file, check(name, way))


def _in_a_process(name: str, ways: Sequence[str], file: Path, limit: float) -> None:
    """Check one architecture in another process; what ends that process is a row too."""
    left = list(ways)
    while left:
        command = [sys.executable, "-m", "tools.by_the_book", "--here", "--out", str(file), "--only", name]
        try:
            done = subprocess.run(
                [*command, "--ways", *left], cwd=ROOT, timeout=limit * len(left), check=False
            )
            how = f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            how = f"no answer in {limit:g} s"
        made = _read(file)
        left = [way for way in left if (name, way) not in made]
        if left:
            _add(file, Row(name, left.pop(0), "ERROR", 0.0, error=how))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "by_the_book.jsonl")
    parser.add_argument("--only", nargs="*", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--limit", type=float, default=900, help="seconds for one check")
    parser.add_argument("--here", action="store_true", help="in this process")
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = _read(args.out)
    for name in args.only:
        ways = [way for way in args.ways if (name, way) not in done]
        if args.here:
            _here(name, ways, args.out)
        else:
            _in_a_process(name, ways, args.out, args.limit)
    if not args.here:
        print(table(_read(args.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
