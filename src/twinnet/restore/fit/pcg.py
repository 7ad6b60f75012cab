"""Preconditioned conjugate gradients, for normal equations given as products only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

__all__ = ["conjugate_gradients"]

Product = Callable[[np.ndarray], np.ndarray]


def conjugate_gradients(
    product: Product,
    right: np.ndarray,
    diagonal: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[np.ndarray]:
    """Yields better and better x with A x = right, one per product with A (symmetric, not indefinite).

    `diagonal` of A preconditions (Jacobi). `project` keeps x within a subspace: it is applied to `right` and
    to every product. The array yielded is updated in place. It ends when the residual is zero.

    >>> a = np.diag(np.arange(1.0, 5))
    >>> *_, x = conjugate_gradients(lambda v: a @ v, np.ones(4), np.ones(4))
    >>> x.round(6).tolist()
    [1.0, 0.5, 0.333333, 0.25]
    """
    keep = project if project is not None else (lambda v: v)
    residual = keep(right.copy())
    inverse = np.divide(1, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    x = np.zeros_like(right)
    z = inverse * residual
    direction = z.copy()
    rz = _dot(residual, z)
    limit = max(rz, 1e-300) * 1e-14
    while rz > limit:
        image = keep(product(direction))
        curvature = _dot(direction, image)
        if curvature <= 0:
            return
        step = rz / curvature
        x += direction.dtype.type(step) * direction
        residual -= residual.dtype.type(step) * image
        yield x
        z = inverse * residual
        fresh = _dot(residual, z)
        direction *= direction.dtype.type(fresh / rz)
        direction += z
        rz = fresh


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.dot(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)))
