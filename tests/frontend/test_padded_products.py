"""Products padded to rows of 16 bytes (frontend/padded_products.py): values, strides, and what is padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile import config
from torch_tile.frontend import padded_products
from torch_tile.frontend.padded_products import Rates

aten = torch.ops.aten
H100 = Rates(132, 989e3, 3350.0)
# Operations cost everything: whatever can be padded is.
SLOW = Rates(1, 1e-3, 1e9)


def rewritten(
    function: Callable[..., Any],
    operands: list[torch.Tensor],
    rates: Rates | None = SLOW,
    tracing_mode: str = "fake",
    **options: Any,
) -> tuple[GraphModule, GraphModule]:
    """The traced graph, and the one with padded products for a device of these rates."""
    gm = make_fx(function, tracing_mode=tracing_mode)(*operands)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(padded_products, "_rates_of", lambda device: rates)
        patch.setattr(padded_products, "matmul_precision", lambda: "tf32")
        return gm, padded_products.pad_products(gm, config.resolve(options=options))


def padded_calls(gm: GraphModule) -> int:
    return len(gm.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default))


def numbers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randint(-2, 3, shape).to(dtype)  # sums of few are exact in any order


def check(gm: GraphModule, changed: GraphModule, operands: list[torch.Tensor]) -> None:
    expected, found = gm(*operands), changed(*operands)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert found.stride() == expected.stride()


def linear(x: Any, w: Any) -> Any:
    return torch.mm(x, w.t())


def gradient_of_weights(x: Any, g: Any) -> Any:
    return torch.mm(g.t(), x)


def both_transposed(a: Any, b: Any) -> Any:
    return torch.mm(a.t(), b.t())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.mm, ((5, 9), (9, 7))),
        (torch.mm, ((16, 16), (16, 7))),
        (torch.mm, ((16, 9), (9, 16))),
        (linear, ((5, 9), (7, 9))),
        (linear, ((16, 16), (7, 16))),
        (gradient_of_weights, ((9, 7), (9, 5))),
        (gradient_of_weights, ((9, 16), (9, 5))),
        (both_transposed, ((9, 5), (7, 9))),
        (lambda x, w: torch.bmm(x, w), ((3, 5, 9), (3, 9, 7))),
        (lambda x, w: torch.bmm(x, w.transpose(1, 2)), ((3, 5, 9), (3, 7, 9))),
        (lambda x, w: torch.relu(torch.mm(x, w)) + 1, ((5, 9), (9, 7))),
        (lambda x, w: torch.mm(torch.mm(x, w), w.t()), ((5, 9), (9, 7))),
    ],
)
def test_values_and_strides(function: Any, shapes: Any, dtype: torch.dtype) -> None:
    operands = [numbers(*shape, dtype=dtype) for shape in shapes]
    gm, changed = rewritten(function, operands)
    assert padded_calls(changed) > 0
    check(gm, changed, operands)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 7), (5, 1), (1, 1), (5, 7)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_summands(shape: tuple[int, ...], is_transposed: bool) -> None:
    operands = [numbers(*shape), numbers(9, 5) if is_transposed else numbers(5, 9), numbers(9, 7)]
    gm, changed = rewritten(lambda s, x, w: torch.addmm(s, x.t() if is_transposed else x, w, beta=2, alpha=3), operands)
    assert padded_calls(changed) > 0
    check(gm, changed, operands)


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
def test_batches_with_a_summand(tracing_mode: str) -> None:
    # The rows of the left operand begin between multiples of 16 bytes, whatever the sizes.
    operands = [numbers(3, 5, 8), numbers(3, 5, 17)[:, :, :16], numbers(3, 16, 8)]
    gm, changed = rewritten(torch.baddbmm, operands, tracing_mode=tracing_mode)
    assert gm is not changed
    check(gm, changed, operands)


def test_rows_that_begin_between() -> None:
    # Sizes are multiples of 16 bytes; strides or offsets are not.
    operands = [numbers(6, 17), numbers(16, 8)]
    for function in (lambda x, w: torch.mm(x[:, :16], w), lambda x, w: torch.mm(x.view(-1)[1:97].view(6, 16), w)):
        gm, changed = rewritten(function, operands)
        assert gm is not changed
        check(gm, changed, operands)


def test_sizes_of_run_time_are_not_padded() -> None:
    gm, changed = rewritten(linear, [numbers(5, 16), numbers(7, 16)], tracing_mode="symbolic")
    assert gm is changed

    def of_any_rows(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x.new_ones(16, 7)) + torch.mm(x, x.new_full((7, 16), 2).t())

    gm, changed = rewritten(of_any_rows, [numbers(5, 16)], tracing_mode="symbolic")
    assert padded_calls(changed) == 2
    for rows in (5, 6, 3):
        check(gm, changed, [numbers(rows, 16)])


def test_sizes_that_come_of_data_are_left_alone() -> None:
    def of_chosen_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        rows = x[:, 0].nonzero().squeeze(1)
        return torch.mm(x[rows], w) + torch.mm(w.t(), w).sum()

    operands = [numbers(5, 9), numbers(9, 7)]
    gm, changed = rewritten(of_chosen_rows, operands, tracing_mode="symbolic")
    torch.testing.assert_close(changed(*operands), gm(*operands), rtol=0, atol=0)


def _traced(*shapes: tuple[int, int]) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes]


@pytest.mark.parametrize(
    ("shapes", "is_padded"),
    [
        (((4095, 1001), (4097, 1001)), True),
        (((16384, 768), (50257, 768)), True),
        (((1024, 1001), (1025, 1001)), True),
        (((4096, 1024), (4096, 1024)), False),  # aligned
        (((4095, 1024), (4096, 1024)), False),  # rows of the left operand need not be
        (((1, 4097), (4097, 4097)), False),  # a copy of the weights costs more than the product
        (((16, 4097), (4097, 4097)), False),
        (((512, 257), (513, 257)), False),  # launches cost more
    ],
)
def test_what_pays_on_h100(shapes: Any, is_padded: bool) -> None:
    _, changed = rewritten(linear, _traced(*shapes), H100)
    assert (padded_calls(changed) > 0) == is_padded


def test_what_is_left_alone() -> None:
    operands = [numbers(5, 9), numbers(7, 9)]
    for options in ({"shape_padding": False}, {"matmul_library": "aten"}, {"emulate_precision_casts": True}):
        gm, changed = rewritten(linear, operands, **options)
        assert gm is changed
    gm, changed = rewritten(linear, operands, rates=None)
    assert gm is changed  # a device without matrix instructions
    doubles = [each.double() for each in operands]
    gm, changed = rewritten(linear, doubles)
    assert gm is changed
