"""Complex numbers: their two parts, and back.

A bound of a complex value is one of its modulus: no part, and no rotation of it, may be further off.
"""

from __future__ import annotations

import torch

from twinnet.layers.kinds._base import Attrs, Error, Errors, Kind, Tensors, add_up, register, scaled


def _view_as_real(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.view_as_real(x.resolve_conj()),)


def _view_as_real_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    return (None if errors[0] is None else errors[0].unsqueeze(-1).expand(outputs[0].shape),)


register(Kind("view_as_real", _view_as_real, _view_as_real_error, exact=True))


def _view_as_complex(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.view_as_complex(x.contiguous()),)


def _view_as_complex_error(
    attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float
) -> tuple[Error]:
    return (None if errors[0] is None else torch.linalg.vector_norm(errors[0], dim=-1),)


register(Kind("view_as_complex", _view_as_complex, _view_as_complex_error, exact=True))


def _conj(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x.conj().resolve_conj(),)


register(Kind("conj", _conj, lambda attrs, inputs, errors, outputs, u: (errors[0],), exact=True))


def _modulus(attrs: Attrs, x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x.abs(),)


# two squares, their sum, its root


def _modulus_error(attrs: Attrs, inputs: Tensors, errors: Errors, outputs: Tensors, u: float) -> tuple[Error]:
    return (add_up(outputs[0], scaled(outputs[0], 2 * u), errors[0]),)


register(Kind("modulus", _modulus, _modulus_error))
