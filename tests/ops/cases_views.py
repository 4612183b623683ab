"""Views of every kind, layout copies, creation, and reading by index."""

# ruff: noqa: E501  (tables: a case is a row)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.ops.case import Arguments, OpCase
from tests.ops.inputs import ALL, NUMBERS, Inputs

VIEW_DTYPES = (torch.float32, torch.bool)


def bump(x: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(x) if x.dtype == torch.bool else x + 1


def around(view: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """The view read by a kernel, and the view of what a kernel made."""

    def function(x: torch.Tensor) -> Any:
        after = view(x)
        before = view(bump(x))
        return [bump(t) for t in after] if isinstance(after, (tuple, list)) else bump(after), before

    return function


def of_shape(*shape: int, fixed: tuple[int, ...] = ()) -> Callable[[Inputs], Sequence[Arguments]]:
    """One tensor; dimension 0 grows under dynamic shapes unless it is listed as fixed."""
    return lambda make: [(make.tensor(*(n if i or 0 in fixed else make.size(n) for i, n in enumerate(shape))),)]


def view(name: str, function: Callable[[torch.Tensor], Any], *shape: int, dynamic: bool = True, **rest: Any) -> OpCase:
    return OpCase(
        name, around(function), of_shape(*shape, fixed=() if dynamic else (0,)), VIEW_DTYPES, dynamic=dynamic, **rest
    )


VIEWS = [
    view("view_split", lambda x: x.view(x.shape[0], 4, 3, 5), 3, 12, 5),
    view("view_join", lambda x: x.view(-1, 5), 3, 12, 5),
    view("view_refactor", lambda x: x.view(6, 10, 3), 3, 12, 5, dynamic=False),
    view("view_flat", lambda x: x.view(-1), 3, 12, 5),
    view("view_odd_digits", lambda x: x.reshape(15, 14).t().reshape(21, 10), 7, 30, dynamic=False),
    view("reshape_of_transposed", lambda x: x.transpose(1, 2).reshape(x.shape[0], -1), 3, 12, 5),
    view("reshape_chain", lambda x: x.reshape(-1, 4).t().reshape(4, -1, 3).permute(1, 2, 0).reshape(-1), 3, 12, 5),
    view("flatten_unflatten", lambda x: x.flatten(0, 1).unflatten(1, (5, 1)), 3, 12, 5),
    view("permute", lambda x: x.permute(2, 0, 1), 3, 12, 5),
    view("permute_back", lambda x: x.permute(2, 0, 1).permute(1, 2, 0), 3, 12, 5),
    view("transpose_contiguous", lambda x: x.transpose(0, 1).contiguous(), 17, 33),
    view("t_add", lambda x: x.t(), 65, 17),
    view("movedim", lambda x: x.movedim(0, -1), 3, 4, 5),
    view("expand", lambda x: x.unsqueeze(1).expand(-1, 7, -1), 3, 5),
    view("expand_new_dimension", lambda x: x.expand(4, *x.shape), 3, 5),
    view("repeat", lambda x: x.repeat(2, 3), 3, 5),
    view("repeat_interleave", lambda x: x.repeat_interleave(3, dim=1), 3, 5),
    view("tile_by_expand", lambda x: x[:, None].expand(-1, 3, -1).reshape(-1, x.shape[1]), 3, 5),
    view("squeeze", lambda x: x.squeeze(1).squeeze(), 3, 1, 5),
    view("unsqueeze", lambda x: x.unsqueeze(0).unsqueeze(-1), 3, 5),
    view("slice", lambda x: x[1:, 2:7], 4, 9),
    view("slice_steps", lambda x: x[::2, 1:8:3], 5, 9),
    view("slice_negative", lambda x: x[-3:-1, :-2], 5, 9),
    view("slice_beyond", lambda x: x[:100, 7:100], 5, 9),
    view("slice_empty", lambda x: x[:, 4:4], 5, 9),
    view("slice_of_slice", lambda x: x[1:][:, 1:][::2, ::2][:, 1:], 7, 9),
    view("narrow", lambda x: x.narrow(1, 2, 4), 5, 9),
    view("select", lambda x: x[1], 4, 9),
    view("select_negative", lambda x: x[:, -2], 4, 9),
    view("select_all", lambda x: x[1, 2], 4, 9),
    view("unbind", lambda x: x.unbind(1), 4, 3),
    view("chunk", lambda x: x.chunk(3, dim=1), 4, 10),
    view("split", lambda x: x.split([2, 3, 4], dim=1), 4, 9),
    view("qkv_heads", lambda x: x.view(x.shape[0], 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0), 2, 144),
    view("flip", lambda x: x.flip(0, 1), 4, 9),
    view("flip_one", lambda x: x.flip(-1), 4, 9),
    view("roll", lambda x: x.roll(2, 1), 4, 9),
    view("roll_both", lambda x: x.roll((-3, 11), (0, 1)), 4, 9),
    view("roll_flat", lambda x: x.roll(5), 4, 9),
    view("roll_whole", lambda x: x.roll((4, 0), (0, 0)), 4, 9, dynamic=False),
    view("rot90", lambda x: torch.rot90(x), 4, 9),
    view("diagonal", lambda x: x.diagonal(), 7, 9, generated=False),
    view("as_strided", lambda x: x.as_strided((3, 4), (9, 2), 1), 4, 9, dynamic=False, generated=False),
    # AOTAutograd gives gradients of overlapping outputs the same overlapping strides, which loses some of them.
    view("unfold", lambda x: x.unfold(1, 3, 2), 4, 9, generated=False, grad=False),
    view("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), 2, 8, 3, 3),
    view("rotate_half", lambda x: torch.cat((-x[..., 4:].float(), x[..., :4].float()), -1), 3, 8),
    view("broadcast_to", lambda x: torch.broadcast_to(x, (2, *x.shape)), 3, 5),
    view("scalar_item_shape", lambda x: x.reshape(()), 1, 1, dynamic=False),
    view("transposed_then_sum", lambda x: x.transpose(0, 1).float().sum(-1), 6, 35),
    view("contiguous_channels_last", lambda x: x.contiguous(memory_format=torch.channels_last), 2, 3, 4, 5),
]

PLAIN_DTYPES = (torch.float32, torch.int64, torch.bool)


def two_of_shape(*shapes: tuple[int, ...]) -> Callable[[Inputs], Sequence[Arguments]]:
    return lambda make: [tuple(make.tensor(*shape) for shape in shapes)]


COPIES = [
    OpCase("cat_rows", lambda x, y: torch.cat([x, y, x]), lambda m: [(m.tensor(m.size(3), 5), m.tensor(m.size(4), 5))], ALL),
    OpCase("cat_columns", lambda x, y: bump(torch.cat([bump(x), y], 1)), lambda m: [(m.tensor(m.size(3), 5), m.tensor(m.size(3), 17))], PLAIN_DTYPES),
    OpCase("cat_of_views", lambda x, y: torch.cat([x.t(), y[:, ::2]], 1), lambda m: [(m.tensor(m.size(3), 5), m.tensor(5, 18))], PLAIN_DTYPES),
    OpCase("cat_empty", lambda x, y: torch.cat([x, y], 0), two_of_shape((0, 5), (2, 5)), PLAIN_DTYPES, dynamic=False),
    OpCase("cat_promotes", lambda x: torch.cat([x, x.to(torch.float32), x.to(torch.int32)]), lambda m: [(m.tensor(m.size(3), 5),)], PLAIN_DTYPES, grad=False),
    OpCase("stack", lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)), lambda m: [(m.tensor(m.size(3), 5), m.tensor(m.size(3), 5))], PLAIN_DTYPES),
    OpCase("stack_pairs", lambda x: torch.stack((x[..., ::2] * 2 - x[..., 1::2], x[..., 1::2] + x[..., ::2]), -1).flatten(-2), lambda m: [(m.tensor(m.size(3), 150),)], NUMBERS),
    OpCase("stack_several", lambda x: tuple(torch.stack([x[k] + k for k in range(n)], -1) for n in (3, 5, 6, 7, 8)), lambda m: [(m.tensor(8, m.size(333)),), (m.tensor(8, 64),)], PLAIN_DTYPES),
    OpCase("stack_four", lambda x: torch.stack((x[:, 0] + 1, x[:, 2], x[:, 1] + x[:, 3], x[:, 3]), -1), lambda m: [(m.tensor(m.size(77), 4),), (m.tensor(1000, 4),)], NUMBERS),
    OpCase("cat_pairs_with_row", lambda x, y: torch.cat((x.unsqueeze(-1), y.expand(x.shape[0], 33).unsqueeze(-1)), -1) * y[:2], lambda m: [(m.tensor(m.size(3), 33), m.tensor(33))], NUMBERS),
    OpCase("cat_uneven", lambda x: torch.cat([x[:, :3], x[:, :64] + 1, x[:, :17].relu(), x], 1), lambda m: [(m.tensor(m.size(3), 100),)], NUMBERS),
    OpCase("cat_reduced", lambda x, y: torch.cat([x, y], 1).float().sum(1), lambda m: [(m.tensor(m.size(3), 70), m.tensor(m.size(3), 90))], NUMBERS),
    OpCase("roll_twice", lambda x: x.roll((-2, 3), (0, 1)), lambda m: [(m.tensor(m.size(5), 130),)], PLAIN_DTYPES),
    OpCase("cat_many", lambda x: torch.cat([x[:, i : i + 2] * (i + 1) for i in range(9)], 1), lambda m: [(m.tensor(m.size(3), 11),)], (torch.float32, torch.int64)),
    OpCase("pad", lambda x: F.pad(x, (1, 2, 3, 0)), lambda m: [(m.tensor(m.size(3), 5),)], PLAIN_DTYPES),
    OpCase("pad_value", lambda x: F.pad(x * 2, (1, 2), value=7), lambda m: [(m.tensor(m.size(3), 5),)], (torch.float32, torch.int64)),
    OpCase("pad_negative", lambda x: F.pad(x, (-1, 2, 1, -1), value=1.5), lambda m: [(m.tensor(m.size(3), 5),)]),
    OpCase("pad_reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), lambda m: [(m.tensor(2, m.size(3), 5),)], generated=False),
    OpCase("pad_replicate", lambda x: F.pad(x, (1, 2), mode="replicate"), lambda m: [(m.tensor(2, m.size(3), 5),)], generated=False),
    OpCase("clone", lambda x: (x.clone(), x.t().clone()), lambda m: [(m.tensor(m.size(3), 5),)], ALL),
    OpCase("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 2, 7), lambda m: [(m.tensor(m.size(3), 9), m.tensor(m.size(3), 5))]),
    OpCase("select_scatter", lambda x, y: torch.select_scatter(x, y, 1, 2), lambda m: [(m.tensor(m.size(3), 9), m.tensor(m.size(3)))]),
    OpCase("in_place_slices", lambda x: _write_slices(x.clone()), lambda m: [(m.tensor(m.size(4), 9),)], (torch.float32, torch.int64), generated=False),
    OpCase("tril_triu", lambda x: (x.tril(), x.triu(1)), lambda m: [(m.tensor(m.size(6), 7),)], PLAIN_DTYPES),
]  # fmt: skip


def _write_slices(x: torch.Tensor) -> torch.Tensor:
    x[1:3, ::2] = 5
    x[:, 1] += 2
    x[0] = x[1] * 2
    x[:, -3:].mul_(3)
    return x


CREATION = [
    OpCase("full", lambda x: (torch.full((3, 5), 2.5), torch.full_like(x, 3), x.new_full((2,), 1)), lambda m: [(m.tensor(m.size(3), 5),)], ALL, grad=False),
    OpCase("zeros_ones", lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.zeros(4), x.new_ones(2, 3)), lambda m: [(m.tensor(m.size(3), 5),)], ALL, grad=False),
    OpCase("ones_times", lambda x: torch.ones_like(x) * x + torch.zeros_like(x), lambda m: [(m.tensor(m.size(3), 5),)]),
    OpCase("arange", lambda x: (torch.arange(7), torch.arange(2, 20, 3), torch.arange(5, -5, -2), torch.arange(0, 1, 0.125), torch.arange(x.shape[0])),
           lambda m: [(m.tensor(m.size(3), 5),)], (torch.float32,), grad=False),
    OpCase("arange_compare", lambda x: x * (torch.arange(x.shape[1], device=x.device)[None] <= torch.arange(x.shape[0], device=x.device)[:, None]), lambda m: [(m.tensor(m.size(9), 9),)], (torch.float32, torch.int64)),
    OpCase("size_as_data", lambda x: (x * x.shape[0], x + x.numel() / 2, torch.full((2,), x.shape[0])), lambda m: [(m.tensor(m.size(3), 5),)], grad=False),
    OpCase("eye", lambda x: torch.eye(5, device=x.device) + x, lambda m: [(m.tensor(5, 5),)], (torch.float32,), dynamic=False),
    OpCase("linspace", lambda x: torch.linspace(0, 1, 9, device=x.device) + x, lambda m: [(m.tensor(9),)], (torch.float32,), dynamic=False, generated=False),
    OpCase("one_hot", lambda x: F.one_hot(x, 10), lambda m: [(m.index(m.size(5), below=10),)], (torch.int64,), grad=False, generated=False),
    OpCase("causal_mask", lambda x: torch.zeros(x.shape[0], x.shape[0]).masked_fill(torch.ones(x.shape[0], x.shape[0]).tril() == 0, float("-inf")),
           lambda m: [(m.tensor(m.size(5), 2),)], (torch.float32,), grad=False),
]  # fmt: skip

INDEXING = [
    OpCase("embedding", lambda i, w: F.embedding(i, w) * 2, lambda m: [(m.index(m.size(4), 7, below=11), m.tensor(11, 5))], generated=False),
    OpCase("embedding_padding", lambda i, w: F.embedding(i, w, padding_idx=3), lambda m: [(m.index(m.size(4), 7, below=11), m.tensor(11, 5))], generated=False),
    OpCase("embedding_int32", lambda i, w: F.embedding(i.int(), w), lambda m: [(m.index(m.size(4), 7, below=11), m.tensor(11, 5))], (torch.float32, torch.bfloat16), generated=False),
    OpCase("embedding_inference", lambda i, w: F.embedding(i, w) * 2, lambda m: [(m.index(m.size(4), 7, below=11), m.tensor(11, 5))], ALL[:4], grad=False),
    OpCase("gather_rows", lambda x, i: torch.gather(x, 0, i), lambda m: [(m.tensor(9, 5), m.index(m.size(4), 5, below=9))], ALL, generated=False),
    OpCase("gather_columns", lambda x, i: torch.gather(x, 1, i), lambda m: [(m.tensor(m.size(4), 9), m.index(m.size(4), 3, below=9))], PLAIN_DTYPES, generated=False),
    OpCase("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), lambda m: [(m.tensor(m.size(4), 9), m.index(m.size(4), 3, below=9))], (torch.float32,), generated=False),
    OpCase("index_first", lambda x, i: x[i] + 1, lambda m: [(m.tensor(9, 5), m.index(m.size(4), below=9, negative=True))], (torch.float32, torch.int64), generated=False),
    OpCase("index_second", lambda x, i: x[:, i], lambda m: [(m.tensor(m.size(4), 9), m.index(6, below=9, negative=True))], PLAIN_DTYPES, generated=False),
    OpCase("index_both", lambda x, i, j: x[i, j], lambda m: [(m.tensor(9, 5), m.index(m.size(4), below=9), m.index(m.size(4), below=5))], PLAIN_DTYPES, generated=False),
    OpCase("index_broadcast", lambda x, i, j: x[i[:, None], j[None]], lambda m: [(m.tensor(9, 5), m.index(m.size(4), below=9), m.index(3, below=5))], PLAIN_DTYPES, generated=False),
    OpCase("index_apart", lambda x, i, j: x[i, :, j], lambda m: [(m.tensor(9, 3, 5), m.index(m.size(4), below=9), m.index(m.size(4), below=5))], PLAIN_DTYPES, generated=False),
    OpCase("index_matrix", lambda x, i: x[i], lambda m: [(m.tensor(9, 5), m.index(m.size(4), 3, below=9))], PLAIN_DTYPES, generated=False),
    OpCase("index_select", lambda x, i: (x.index_select(0, i), x.index_select(1, i)), lambda m: [(m.tensor(9, 9), m.index(m.size(4), below=9))], PLAIN_DTYPES, generated=False),
    OpCase("index_of_computed", lambda x, i: (x * 2 + 1)[i.clamp(0, 5)].sum(-1), lambda m: [(m.tensor(9, 5), m.index(m.size(4), below=9))], (torch.float32,), generated=False),
    OpCase("masked_fill", lambda x: x.masked_fill(torch.arange(x.shape[1], device=x.device) % 2 == 0, 3), lambda m: [(m.tensor(m.size(4), 9),)], (torch.float32, torch.int64)),
    OpCase("rotary", lambda x, p: _rotary(x, p), lambda m: [(m.tensor(2, 3, m.size(7), 8), torch.arange(m.size(7)))], (torch.float32,)),
]  # fmt: skip


def _rotary(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding as in Llama."""
    frequencies = 1.0 / (10000.0 ** (torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1]))
    angles = positions[:, None].float() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * angles.sin()


CASES: list[OpCase] = [*VIEWS, *COPIES, *CREATION, *INDEXING]
