"""Crops side by side: one PNG per test set, and a page with all of them and the table."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np

from twinnet.files import atomic_write
from twinnet.restore.evaluate import Evaluation

__all__ = ["interesting", "side_by_side", "write_gallery"]

_SIDE, _ZOOM, _LABEL = 64, 3, 18

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{ title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .8rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; image-rendering: pixelated; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } td, th { border-color: #444; } }
</style>
<h1>{{ title }}</h1>
{% for bench in benches %}<h2>{{ bench.name }}</h2>
<table><tr>{% for cell in bench.header %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in bench.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% for picture in bench.pictures %}<figure><img alt="{{ picture.name }}: every model and the target, side by side"
src="data:image/png;base64,{{ picture.data }}"><figcaption>{{ picture.name }}</figcaption></figure>
{% endfor %}{% endfor %}
{% if missing %}<p>Skipped, since no such folder of images was there: {{ missing | join(", ") }}</p>{% endif %}
</html>
"""


def interesting(plain: np.ndarray, target: np.ndarray, side: int = _SIDE) -> tuple[int, int]:
    """Top left corner of the part where the plain answer is worst.

    >>> bad = np.zeros((32, 32)); bad[20:24, 8:12] = 255
    >>> interesting(bad, np.zeros((32, 32)), 8)
    (16, 4)
    """
    gap = (plain.astype(np.float64) - target) ** 2
    gap = gap if gap.ndim == 2 else gap.mean(axis=2)
    h, w = (min(side, n) for n in gap.shape)
    total = np.pad(gap, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    sums = total[h:, w:] - total[:-h, w:] - total[h:, :-w] + total[:-h, :-w]
    y, x = np.unravel_index(int(np.argmax(sums.round(6))), sums.shape)
    return int(y), int(x)


def side_by_side(images: dict[str, np.ndarray]) -> np.ndarray:
    """The same crop of every image, enlarged pixel by pixel, each with its name above: uint8 RGB."""
    from PIL import Image, ImageDraw

    names = list(images)
    y, x = interesting(images[names[0]], images["target"], _SIDE)
    crops = [images[name][y : y + _SIDE, x : x + _SIDE] for name in names]
    h, w = (n * _ZOOM for n in crops[0].shape[:2])
    sheet = Image.new("RGB", ((w + 4) * len(names), h + _LABEL), "white")
    draw = ImageDraw.Draw(sheet)
    for k, (name, crop) in enumerate(zip(names, crops)):
        colour = crop if crop.ndim == 3 else np.repeat(crop[..., None], 3, axis=2)
        big = np.repeat(np.repeat(colour, _ZOOM, axis=0), _ZOOM, axis=1)
        sheet.paste(Image.fromarray(np.ascontiguousarray(big)), (k * (w + 4), _LABEL))
        short = name if len(name) * 6 <= w else name[: w // 6 - 2] + ".."
        draw.text((k * (w + 4) + 2, 2), short, fill="black")
    return np.asarray(sheet)


def write_gallery(result: Evaluation, folder: Path) -> None:
    """`crops-NAME.png` for every shown image, and `index.html` with everything in it."""
    from jinja2 import Environment
    from PIL import Image

    from twinnet.restore.results import table

    pictures: dict[str, list[dict[str, str]]] = {}
    for name, images in result.shown.items():
        buffer = io.BytesIO()
        Image.fromarray(side_by_side(images)).save(buffer, "PNG")
        atomic_write(folder / f"crops-{name.replace('/', '-')}.png", buffer.getvalue())
        encoded = base64.b64encode(buffer.getvalue()).decode()
        pictures.setdefault(name.partition("/")[0], []).append({"name": name, "data": encoded})
    benches = []
    for name in dict.fromkeys(row.benchmark for row in result.rows):
        header, *rows = table(result, name)
        benches.append({"name": name, "header": header, "rows": rows, "pictures": pictures.get(name, [])})
    page = Environment(autoescape=True).from_string(_PAGE)
    html = page.render(title=f"Evaluation: {result.task}", benches=benches, missing=result.missing)
    atomic_write(folder / "index.html", html.encode())
