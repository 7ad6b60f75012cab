"""The fast float64 convolution against torch's own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.layers.kinds._conv64 import _STRIP, convolve, pad_data


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 2),
    st.sampled_from([(1, 3), (1, 8), (1, 16), (4, 4), (2, 12), (16, 1), (3, 1)]),
    st.integers(1, 3),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.integers(1, 2), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 3)] * 4),
)
def test_two_dimensions(n, groups, outs, kernel, strides, dilations, pads):
    group, per = groups
    torch.manual_seed(0)
    x = torch.randn(n, group * per, 14, 17, dtype=torch.float64)
    w = torch.randn(group * outs, per, *kernel, dtype=torch.float64)
    wanted = F.conv2d(pad_data(x, pads), w, None, strides, 0, dilations, group)
    got = convolve(x, w, strides, pads, dilations, group)
    assert got.shape == wanted.shape
    assert torch.allclose(got, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.tuples(st.integers(0, 2), st.integers(0, 2))
)
def test_one_dimension(kernel, stride, dilation, pads):
    torch.manual_seed(0)
    x, w = torch.randn(2, 9, 30, dtype=torch.float64), torch.randn(4, 9, kernel, dtype=torch.float64)
    wanted = F.conv1d(F.pad(x, pads), w, None, stride, 0, dilation)
    assert torch.allclose(convolve(x, w, (stride,), pads, (dilation,), 1), wanted, rtol=1e-12, atol=1e-12)


def test_negative_pads_crop() -> None:
    x = torch.arange(25.0).reshape(1, 1, 5, 5)
    assert torch.equal(pad_data(x, (-1, 0, -1, -2)), x[:, :, 1:4, :3])


def test_large_pictures_are_summed_strip_by_strip() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 16, 130, 141, dtype=torch.float64), torch.randn(6, 8, 3, 5, dtype=torch.float64)
    assert x[0, 0].numel() > 2 * _STRIP
    wanted = F.conv2d(pad_data(x, (1, 0, 2, 3)), w, None, 1, 0, (2, 1), 2)
    got = convolve(x, w, (1, 1), (1, 0, 2, 3), (2, 1), 2)
    assert torch.allclose(got, wanted, rtol=1e-12, atol=1e-12)
