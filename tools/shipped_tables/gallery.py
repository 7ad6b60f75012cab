"""`python -m tools.shipped_tables.gallery`: docs/gallery.md, eight awkward pictures before and after.

The pictures are drawn here, go through files of the kinds that people have, and through `lut run` like theirs.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tools.shipped_tables.unusual_inputs import page_of_text
from twinnet import models
from twinnet.files import atomic_write
from twinnet.lut.batch import run_files
from twinnet.lut.model import load
from twinnet.lut.pictures import read_picture
from twinnet.lut.png import write_png
from twinnet.restore.bicubic import shrink
from twinnet.restore.sample import scene

__all__ = ["PICTURES", "Awkward", "main", "make"]

PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"
_GAP = 12


@dataclass(frozen=True)
class Awkward:
    """One picture: how its file is made, which tables run on it, and what to look for."""

    name: str
    title: str
    tables: str
    draw: Callable[[Path], Path]
    """Writes the file into a folder."""
    look: str
    contrast: int = 1
    """How much both sides are exaggerated around their mean, to see what is there."""


def _sky(folder: Path) -> Path:
    rows, columns = np.mgrid[:48, :72]
    tone = 0.25 + 0.5 * rows / 47 + 0.1 * columns / 71
    sky = np.stack([90 * tone + 40, 120 * tone + 60, 90 * tone + 120], axis=-1)
    Image.fromarray(np.rint(sky).astype(np.uint8)).save(folder / "sky.png")
    return folder / "sky.png"


def _text(folder: Path) -> Path:
    Image.fromarray(shrink(page_of_text(4)[:192, :288], 4)).save(folder / "text.png")
    return folder / "text.png"


def _poster(folder: Path) -> Path:
    sheet = Image.new("RGB", (144, 96), "white")
    draw = ImageDraw.Draw(sheet)
    draw.rectangle((0, 64, 144, 96), fill="black")
    for number, colour in enumerate(("red", "lime", "blue", "yellow", "cyan", "magenta")):
        draw.rectangle((8 + 22 * number, 38, 24 + 22 * number, 56), fill=colour)
    draw.text((8, 6), "BLACK & WHITE", fill="black", font=ImageFont.load_default(17))
    draw.text((8, 68), "BLACK & WHITE", fill="white", font=ImageFont.load_default(17))
    sheet.save(folder / "poster.jpg", quality=10)
    return folder / "poster.jpg"


def _lines(folder: Path) -> Path:
    sheet = np.full((48, 72), 255, np.uint8)
    sheet[4:20, 4:36:2] = 0
    sheet[4:20, 40:68] = np.indices((16, 28)).sum(axis=0) % 2 * 255
    rows, columns = np.mgrid[:24, :72]
    rings = np.hypot(rows - 24, columns - 36)
    sheet[24:] = np.where((rings % 4) < 1.5, 0, 255)
    Image.fromarray(sheet).save(folder / "lines.png")
    return folder / "lines.png"


def _night(folder: Path) -> Path:
    good = scene(5, 96, 144).astype(float) * 0.35
    noise = np.random.default_rng(0).normal(0, 25, good.shape)
    Image.fromarray(np.rint(good + noise).clip(0, 255).astype(np.uint8)).save(folder / "night.png")
    return folder / "night.png"


def _logo(folder: Path) -> Path:
    big = Image.new("RGBA", (288, 192), (255, 120, 0, 0))
    draw = ImageDraw.Draw(big)
    draw.ellipse((48, 16, 208, 176), fill=(255, 120, 0, 255))
    draw.ellipse((96, 56, 176, 136), fill=(255, 120, 0, 0))
    draw.rectangle((200, 120, 272, 176), fill=(20, 60, 200, 128))
    big.resize((72, 48), Image.Resampling.BOX).save(folder / "logo.png")
    return folder / "logo.png"


def _turned(folder: Path) -> Path:
    upright = Image.fromarray(scene(9, 96, 72))
    draw = ImageDraw.Draw(upright)
    draw.polygon([(36, 6), (14, 36), (58, 36)], fill="white")
    draw.rectangle((28, 36, 44, 80), fill="white")
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = upright.transpose(Image.Transpose.ROTATE_90)
    stored.save(folder / "turned.jpg", quality=92, exif=exif)
    return folder / "turned.jpg"


def _dark(folder: Path) -> Path:
    rows, columns = np.mgrid[:48, :72]
    dark = (1200 + 900 * np.sin(columns / 30) * np.cos(rows / 22)).astype(np.uint16)
    buffer = io.BytesIO()
    write_png(buffer, 48, 72, 1, [dark[..., None]], deep=True)
    (folder / "dark.png").write_bytes(buffer.getvalue())
    return folder / "dark.png"


PICTURES = (
    Awkward("sky", "A clear sky", "sr-x4-best", _sky, "No pattern: every flat or nearly flat area stays even."),
    Awkward("text", "Small print", "sr-x4-strong", _text, "White paper stays white, black ink black; edges are sharp."),
    Awkward("poster", "A poster as a JPEG of quality 10", "deblock-10", _poster,
            "Blocks and ringing go; pure black, white and full colours stay what they are."),
    Awkward("lines", "One-pixel lines and a chessboard", "sr-x3-best", _lines,
            "The hardest case: frequencies that no photograph has. Lines stay apart; curves are drawn with steps."),
    Awkward("night", "A noisy night", "denoise-25", _night,
            "The noise goes with some of the faint detail. Colours are denoised plane by plane."),
    Awkward("logo", "A logo with transparency", "sr-x4-fast", _logo,
            "Shown on grey. Transparency is resized beside the colours, which are carried on under it: no dark rim."),
    Awkward("turned", "A photograph stored on its side", "sr-x2-strong", _turned,
            "The rotation in its EXIF data is applied once, and no longer stated."),
    Awkward("dark", "Sixteen bits, nearly black", "sr-x2-strong", _dark,
            "Contrast exaggerated twenty times. Before: what 8 bits would hold. After: all tones of the file.", 20),
)  # fmt: skip
"""All of them, in the order of the page."""


def make(folder: Path) -> str:
    """Write all pictures into a folder; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        atomic_write(folder / f"{picture.name}.png", _pair(picture))
    return _page()


def _pair(picture: Awkward) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        source = picture.draw(Path(name))
        result = Path(name) / "result.png"
        run_files(load(models.file_of(picture.tables)), source, result)
        before, after = (_shown(path, picture) for path in (source, result))
    factor = max(1, 288 // after.shape[1])
    before, after = (
        np.repeat(np.repeat(side, n, axis=0), n, axis=1)
        for side, n in ((before, factor * after.shape[1] // before.shape[1]), (after, factor))
    )
    gap = np.full((len(after), _GAP, 3), 255, np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(np.concatenate([before, gap, after], axis=1)).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _shown(path: Path, picture: Awkward) -> np.ndarray:
    """A file as RGB of 8 bits, on grey where it is transparent."""
    found = read_picture(path, deep=True)
    colours = found.pixels[..., None] if found.pixels.ndim == 2 else found.pixels
    shown = np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours
    if found.deep:
        exact = shown / 257
        # The side before is what a file of 8 bits would keep.
        exact = np.rint(exact) if path.stem != "result" else exact
        return np.rint((exact - 4.67) * picture.contrast + 128).clip(0, 255).astype(np.uint8)
    if found.alpha is not None:
        share = found.alpha[..., None] / 255
        shown = np.rint(shown * share + 128 * (1 - share)).astype(np.uint8)
    return shown


def _page() -> str:
    lines = [
        "# Eight awkward pictures",
        "",
        "Test sets consist of photographs; people also have posters, screenshots, skies and scans. Each picture below",
        "was saved to a file and run through the shipped tables by `twinnet lut run`: before on the left, with every",
        "pixel enlarged to a square, after on the right. `python -m tools.shipped_tables.gallery` writes this page and",
        "its pictures; every model's card has scores for such inputs.",
        "",
    ]
    for picture in PICTURES:
        lines += [
            f"## {picture.title}",
            "",
            f"![{picture.title}, before and after](gallery/{picture.name}.png)",
            "",
            f"`{picture.tables}`. {picture.look}",
            "",
        ]
    lines += ["All tables and their scores: [shipped-tables.md](shipped-tables.md).", ""]
    return "\n".join(lines)


def main() -> int:
    """Write the page."""
    atomic_write(PAGE, make(PAGE.parent / "gallery").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
