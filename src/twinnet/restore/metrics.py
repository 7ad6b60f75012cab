"""PSNR, SSIM and PSNR-B as this field computes them, so that numbers compare with published ones."""

from __future__ import annotations

import numpy as np

from twinnet.errors import UsageError

__all__ = ["luma", "luma_8bit", "luma_full", "psnr", "psnr_b", "psnr_y", "ssim", "ssim_y"]


def luma(image: np.ndarray) -> np.ndarray:
    """BT.601 Y in 16..235 of an RGB image in 0..255, not rounded. Gray images pass unchanged.

    >>> luma(np.full((1, 1, 3), 255)).round(3).tolist()
    [[235.0]]
    """
    if image.ndim == 2:
        return image.astype(np.float64)
    if image.ndim != 3 or image.shape[2] != 3:
        raise UsageError(f"luma takes [rows, columns] or [rows, columns, 3], not {list(image.shape)}")
    weights = np.array([0.256788235294118, 0.504129411764706, 0.097905882352941])
    return image.astype(np.float64) @ weights + 16


def luma_8bit(image: np.ndarray) -> np.ndarray:
    """BT.601 Y rounded to uint8, as the deblocking task uses it.

    >>> luma_8bit(np.full((1, 1, 3), 255)).tolist()
    [[235]]
    """
    y = image.astype(np.float64) @ np.array([65.481, 128.553, 24.966]) / 255 + 16
    return np.rint(y).clip(0, 255).astype(np.uint8)


def luma_full(image: np.ndarray) -> np.ndarray:
    """The luma of JPEG files: BT.601 Y in 0..255, rounded to uint8.

    >>> luma_full(np.full((1, 1, 3), 255)).tolist()
    [[255]]
    """
    return np.rint(image.astype(np.float64) @ np.array([0.299, 0.587, 0.114])).clip(0, 255).astype(np.uint8)


def _pair(a: np.ndarray, b: np.ndarray) -> None:
    if a.shape != b.shape:
        raise UsageError(f"images of different size: {list(a.shape)} and {list(b.shape)}")


def psnr(a: np.ndarray, b: np.ndarray, shave: int = 0) -> float:
    """20 log10(255 / rmse) over all samples, `shave` pixels cut off every side; infinite for equal images.

    The difference is taken in float32, as the published numbers do.

    >>> round(psnr(np.zeros((4, 4)), np.full((4, 4), 25.5)), 3)
    20.0
    """
    _pair(a, b)
    difference = a.astype(np.float32) - b.astype(np.float32)
    if shave:
        difference = difference[shave:-shave, shave:-shave]
    if difference.size == 0:
        raise UsageError(f"an image of {a.shape[0]} x {a.shape[1]} has nothing left after shaving {shave}")
    rmse = float(np.sqrt(np.mean(difference.astype(np.float64) ** 2)))
    return float("inf") if rmse == 0 else 20 * float(np.log10(255 / rmse))


def psnr_y(a: np.ndarray, b: np.ndarray, shave: int = 0) -> float:
    """PSNR on the unrounded luma: the number of super-resolution papers."""
    _pair(a, b)
    return psnr(luma(a), luma(b), shave)


def _blur(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Separable filter, `valid` part only."""
    windows = np.lib.stride_tricks.sliding_window_view(image, len(kernel), axis=0)
    windows = np.lib.stride_tricks.sliding_window_view(windows @ kernel, len(kernel), axis=1)
    return windows @ kernel


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Mean SSIM of two gray images in 0..255: Gaussian 11x11, sigma 1.5, valid part, K = 0.01 and 0.03.

    >>> x = np.arange(400.0).reshape(20, 20) % 255
    >>> ssim(x, x)
    1.0
    """
    _pair(a, b)
    if a.ndim != 2 or min(a.shape) < 11:
        raise UsageError(f"SSIM needs gray images of at least 11 x 11, not {list(a.shape)}")
    x, y = a.astype(np.float64), b.astype(np.float64)
    kernel = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    kernel /= kernel.sum()
    mx, my = _blur(x, kernel), _blur(y, kernel)
    vx, vy = _blur(x * x, kernel) - mx * mx, _blur(y * y, kernel) - my * my
    cov = _blur(x * y, kernel) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    score = ((2 * mx * my + c1) * (2 * cov + c2)) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return float(score.mean())


def ssim_y(a: np.ndarray, b: np.ndarray) -> float:
    """SSIM on the unrounded luma, without shaving."""
    _pair(a, b)
    return ssim(luma(a), luma(b))


def psnr_b(prediction: np.ndarray, target: np.ndarray) -> float:
    """PSNR-B of gray images in 0..255: the mean squared error grows by the blocking effect of the prediction.

    >>> flat = np.full((16, 16), 100.0)
    >>> round(psnr_b(flat + 25.5, flat), 3)
    20.0
    """
    _pair(prediction, target)
    if prediction.ndim != 2 or min(prediction.shape) < 16:
        raise UsageError(f"PSNR-B needs gray images of at least 16 x 16, not {list(prediction.shape)}")
    x, y = prediction.astype(np.float64) / 255, target.astype(np.float64) / 255
    h, w = x.shape
    across, down = (x[:, 1:] - x[:, :-1]) ** 2, (x[1:] - x[:-1]) ** 2
    # Block edges lie between pixels 7|8, 15|16, ... The last edge of a size divisible by 8 is the border
    # itself.
    columns, rows = np.arange(7, w - 1, 8), np.arange(7, h - 1, 8)
    edges = float(across[:, columns].sum() + down[rows].sum())
    others = float(across.sum() + down.sum()) - edges
    n_edge = h * (w // 8 - 1) + w * (h // 8 - 1)
    n_other = h * (w - 1) + w * (h - 1) - n_edge
    excess = edges / n_edge - others / n_other
    effect = max(excess, 0.0) * np.log2(8) / np.log2(min(h, w))
    total = float(np.mean((x - y) ** 2)) + effect
    return float("inf") if total == 0 else 10 * float(np.log10(1 / total))
