# ruff: noqa: E501 (a table reads best with one row per kind)
"""The canonical kinds: what a layer may be, how it is evaluated, and how far rounding may move its result.

A kind is a pair of functions in one of the files beside this one, and a call of `register`. Files are found by
themselves, so a new kind changes nothing else. A network with a meaning of its own registers its kinds in its own room
(`twinnet.tables.kinds`).

    def _evaluate(attrs, x):                                   # float64 in, float64 out; integers and bool stay so
        return (torch.relu(x),)

    def _error(attrs, inputs, errors, outputs, u):             # |Jacobian| * errors + own rounding at unit roundoff u
        return (errors[0],)

    register(Kind("relu", _evaluate, _error, exact=True))

`errors[i]` and the results are float32 tensors of the shape of the value they belong to, or None for "exact".
With `u == 0` only the inherited part is computed. A bound is never negative and never NaN; `inf` says "unbounded".
Where the value itself is NaN or infinite the bound is 0: such places are compared as masks. `exact` kinds only move
or select values: without inherited errors, their result must be bit equal. `elementwise` kinds look only
at one place of their (broadcast) operands, so that large tensors can be worked on block by block.

**Discrete kinds** (`discrete`: argmax, topk, comparisons, round, cast to integers, quantize_linear ...). Their `error`
is the step by which an element may be off because its margin is within the error of the input: 0 (or None) where no
flip is allowed, 1 for a comparison, one unit for round, floor, quantize_linear, `inf` for an index. `Kind.flips`
returns this as one `Flips` per output; `Flips.excuses(expected, got)` says element by element whether `got` is
acceptable. For indices (argmax, topk) it looks up the value at the index that was chosen and accepts it only if that
value ties with the best one within the errors.

Conventions. Data is NC[D]HW, weights are OI[D]HW (transposed convolution: IO[D]HW). `pads` are in ONNX order, all
begins then all ends, one per spatial axis. Axes may be negative. Attributes not given have the default shown.
An operand with a star may be given as attribute of that name (Python ints or floats) or as input at its place.
`?` marks an optional operand (None, or left off at the end).

| kind | inputs | attributes and defaults |
|---|---|---|
| **linear** | | |
| conv | x, w, b? | strides=1s, pads=0s, dilations=1s, group=1; auto_pad ("same_upper", "same_lower") only if sizes are unknown |
| conv_transpose | x, w, b? | strides=1s, pads=0s, dilations=1s, group=1, output_padding=0s; output_shape, auto_pad as in ONNX |
| matmul | a, b | numpy semantics; alpha=1.0, trans_a=False, trans_b=False (last two axes) |
| gemm | a, b, c? | alpha*a@b + beta*c; alpha=1.0, beta=1.0, trans_a=False, trans_b=False |
| linear | x, w, b? | x @ w.T + b |
| einsum | operands... | equation |
| attention | q, k, v, mask? | [B,H,L,E] x [B,Hk,S,E] x [B,Hk,S,Ev], Hk divides H; scale=None (1/sqrt E), is_causal=False, softcap=0.0; mask bool (True = keep) or added |
| conv_integer, matmul_integer | x, w, x_zero?, w_zero? | as conv / matmul, in exact integers, int32 out |
| **elementwise** | | |
| add sub mul div pow mod atan2 | a, b | broadcast; integer div truncates; div: rounding=None ("floor", "trunc"); mod: fmod=False; add, sub: alpha=1 (scales b) |
| max min sum mean | one or more | broadcast |
| neg abs sqrt rsqrt reciprocal square exp exp2 expm1 log log1p log2 log10 | x | |
| sin cos tan asin acos atan sinh cosh asinh acosh atanh erf erfc | x | |
| and or xor not | bool | |
| bitwise_and bitwise_or bitwise_xor bitwise_not bit_shift | int | bit_shift: direction="left" |
| where | condition, a, b | |
| lerp | a, b, t | a + t (b - a) |
| **activation** | | |
| relu sigmoid tanh softsign log_sigmoid hard_swish | x | |
| clip | x, min?*, max?* | also relu6, hardtanh, clamp |
| leaky_relu | x | alpha=0.01 |
| prelu | x, slope | slope broadcasts to x as in numpy (fx: reshape it to C,1,1) |
| elu, celu | x | alpha=1.0 |
| selu | x | alpha=1.6732632423543772, gamma=1.0507009873554805 |
| thresholded_relu | x | alpha=1.0 |
| shrink | x | bias=0.0, lambd=0.5 |
| hard_sigmoid | x | alpha=0.2, beta=0.5 (torch: alpha=1/6) |
| swish | x | alpha=1.0 (SiLU; 1.702 is QuickGelu) |
| gelu | x | approximate="none" or "tanh" |
| mish | x | |
| softplus | x | beta=1.0 |
| softmax, log_softmax, hardmax | x | axis=-1 |
| glu | x | axis=-1 |
| **structural** (exact) | | |
| identity | x | also dropout, contiguous, clone, detach |
| reshape | x, shape* | shape: -1 once, 0 copies the input's size unless allowzero=True |
| flatten | x | axis=1: two-dimensional result, as ONNX |
| transpose | x | perm=reversed |
| squeeze | x, axes?* | axes=None: all of size 1 |
| unsqueeze | x, axes* | |
| expand | x, shape* | 1s and leading axes broadcast; -1 keeps (both ways as ONNX) |
| tile | x, repeats* | |
| concat, stack | x... | axis |
| split | x, sizes?* | axis=0; sizes, or count=outputs: equal parts (last smaller) |
| slice | x, starts*, ends*, axes?*, steps?* | numpy semantics |
| select | x | axis, index: the axis disappears |
| pad | x, pads*, value?*, axes?* | mode="constant" ("reflect", "edge", "wrap"), pads: begins then ends for `axes` (all), may be negative; value=0 |
| gather | x, indices | axis=0 (embedding: gather(weight, indices)) |
| gather_elements | x, indices | axis=0 |
| gather_nd | x, indices | batch_dims=0 |
| index | x, indices... | aten.index: dims=(axis of each index tensor), numpy rules |
| scatter_elements | x, indices, updates | axis=0, reduction="none" ("add", "mul", "max", "min") |
| scatter_nd | x, indices, updates | reduction="none" |
| depth_to_space | x | block, mode="CRD" (pixel_shuffle) or "DCR" |
| space_to_depth | x | block (ONNX order); mode="DCR", "CRD" is pixel_unshuffle |
| flip | x | axes |
| roll | x | shifts, axes |
| trilu | x, k?* | upper=True, k=0 |
| shape | x | start=0, end=None |
| size, rank | x | |
| constant_of_shape | shape* | value=0.0, dtype=torch.float32 |
| range | start*, limit*, step* | dtype=None (of the operands) |
| eye_like | x | k=0, dtype=None |
| one_hot | indices, depth*, values | axis=-1; values = [off, on] |
| compress | x, condition | axis=None |
| reverse_sequence | x, lengths | batch_axis=1, time_axis=0 |
| center_crop_pad | x, shape* | axes=None |
| unfold | x | im2col: kernel, strides=1s, pads=0s, dilations=1s |
| fold | x, size*, block* | col2im: strides=1s, pads=0s, dilations=1s |
| **reduce** | | |
| reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_sum_square | x, axes?* | axes=None: all, keepdims=True, noop_with_empty_axes=False |
| reduce_var, reduce_std | x, axes?* | keepdims=True, correction=1 |
| reduce_any, reduce_all | x, axes?* | keepdims=True |
| cumsum, cumprod | x, axis* | exclusive=False, reverse=False |
| **pool** | | |
| max_pool | x | kernel, strides=1s, pads=0s, dilations=1s, ceil_mode=False; outputs y, indices? (storage_order=0: flat index over the whole tensor; index_base="plane": as torch) |
| average_pool | x | as max_pool, count_include_pad=False |
| lp_pool | x | as max_pool, p=2 |
| global_average_pool global_max_pool global_lp_pool | x | lp: p=2 |
| adaptive_average_pool, adaptive_max_pool | x | output_size (None keeps) |
| max_unpool | x, indices, shape?* | kernel, strides, pads |
| **norm** | | |
| batch_norm | x, scale?, bias?, mean, var | eps=1e-5 |
| layer_norm | x, scale?, bias? | axis=-1 (first normalised axis), eps=1e-5; outputs y, mean?, inverse_std? |
| rms_norm | x, scale? | axis=-1, eps=1e-5 |
| instance_norm | x, scale?, bias? | eps=1e-5 |
| group_norm | x, scale?, bias? | groups, eps=1e-5; scale and bias per channel (or per group) |
| mean_variance_norm | x | axes=(0, 2, 3) |
| lp_norm | x | axis=-1, p=2, eps=0.0 (lower bound of the norm) |
| lrn | x | size, alpha=1e-4, beta=0.75, bias=1.0 |
| **resize** | | |
| resize | x, roi?*, scales?*, sizes?* | mode="nearest" ("linear", "cubic"), coordinates="half_pixel" ("asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"), nearest="round_prefer_floor" ("round_prefer_ceil", "floor", "ceil"), cubic_a=-0.75, exclude_outside=False, antialias=False, extrapolation=0.0, axes=None (all), policy="stretch" |
| grid_sample | x, grid | mode="linear" ("nearest", "cubic"), padding="zeros" ("border", "reflection"), align_corners=False |
| affine_grid | theta, size* | align_corners=False |
| **recurrent** (ONNX layout: w [dirs, gates*hidden, in], r [dirs, gates*hidden, hidden], b [dirs, 2*gates*hidden]) | | |
| lstm | x, w, r, b?, lengths?, h0?, c0?, peephole? | direction="forward" ("reverse", "bidirectional"), layout=0 (time first), activations=None, clip=None, input_forget=False, rounds_state=False; gates iofc; outputs y, h?, c? |
| gru | x, w, r, b?, lengths?, h0? | as lstm, linear_before_reset=False (torch: True); gates zrh |
| rnn | x, w, r, b?, lengths?, h0? | as lstm, activations=None ("tanh", "relu") |
| **discrete** | | |
| equal not_equal less less_equal greater greater_equal | a, b | |
| argmax, argmin | x | axis=None (flat), keepdims=True, select_last=False |
| topk | x, k* | axis=-1, largest=True, sorted=True; outputs values, indices |
| sort | x | axis=-1, descending=False; outputs values, indices |
| round floor ceil trunc sign | x | round: half to even |
| cast | x | to: torch dtype; between floats it is rounding (own error), to integers and bool discrete; saturate=True (float8) |
| nonzero | x | layout="rows" (ONNX: [rank, n]; "columns": torch, [n, rank]) |
| isnan | x | |
| isinf | x | negative=True, positive=True |
| quantize_linear | x, scale*, zero?* | axis=1, block=0, to=torch.uint8 (if no zero), qmin, qmax (range of `to`), precision=None, slack=0.0, share=0.0 (by how many steps, and what share of itself, a result counted in fixed point may be off) |
| dequantize_linear | x, scale*, zero?* | axis=1, block=0 |
| dynamic_quantize_linear | x | outputs y, scale, zero (uint8) |
| dynamic_step | x | outputs x, 1, 0: the same in real numbers, x off by half a step; symmetric=False |
| unique | x | axis=None, sorted=True; outputs y, first?, inverse?, counts? |
| **complex** (a bound is one of the modulus) | | |
| view_as_real view_as_complex conj modulus | x | the parts are along a last axis of 2; add, sub, mul and what only moves values take complex operands, too |
| **control** | | |
| if | condition, captured... | then, orelse: Graph; names: what both call the captured operands |
| loop | trips?, condition?, states..., captured... | body: Graph (step, condition, states -> condition, states, scans), states: how many, names: of the captured operands |
| opaque | any | run: function of torch tensors returning a tuple; without it `unknown`: why it cannot be evaluated; axes, lengths: of a Fourier transform |
"""

from __future__ import annotations

import importlib
import pkgutil

from twinnet.layers.kinds._base import (
    Attrs,
    Error,
    Errors,
    Flips,
    Kind,
    Tensors,
    UnknownLayer,
    along,
    get,
    ints,
    kinds,
    register,
)

__all__ = [
    "Attrs",
    "Error",
    "Errors",
    "Flips",
    "Kind",
    "Tensors",
    "UnknownLayer",
    "along",
    "get",
    "ints",
    "kinds",
    "register",
]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
