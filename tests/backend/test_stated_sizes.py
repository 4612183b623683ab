"""Views of dynamic sizes whose arguments state sizes: kernels know them, those of gradients too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compiling import assert_same, compiled, count, fresh, gradients
from torch_tile.debug import record

_Function = Callable[[torch.Tensor], torch.Tensor]


def _scaled_blocks(x: torch.Tensor) -> torch.Tensor:
    blocks = x.reshape(-1, 8)
    return (blocks / (1 + blocks.abs().amax(-1, keepdim=True))).reshape(x.shape)


PROGRAMS: dict[str, _Function] = {
    "reshape": lambda x: x.reshape(-1, 4).sum(1),
    "reshape of a transpose": lambda x: x.t().reshape(-1, 4).softmax(1),
    "middle": lambda x: x.reshape(x.shape[0], -1, 6).sum(1),
    "view": lambda x: x.view(-1, x.shape[1], 2).amax(-1),
    "unflatten": lambda x: x.unflatten(1, (-1, 3)).sin().mean(-1),
    "halves": lambda x: x.unflatten(1, (-1, 2))[..., 0] * x.unflatten(1, (-1, 2))[..., 1].sigmoid(),
    "views of views": lambda x: x.reshape(-1, 12).reshape(-1, 3, 4).sum(2).reshape(-1, 6).sum(1),
    "two numbers": lambda x: x.reshape(x.shape[0], -1, 2, 3).transpose(1, 2).sum(-1),
    "blocks": _scaled_blocks,
}
SIZES = [(8, 24), (4, 48), (16, 12), (2, 120)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name: str) -> None:
    function = PROGRAMS[name]
    other = compiled(function, dynamic=True)
    fresh()
    for sizes in SIZES:
        x = torch.randn(sizes)
        with torch.no_grad():
            assert_same(other(x), function(x))
        assert_same(gradients(other, [x]), gradients(function, [x]))
    assert count("externs") == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_kernel_divides_by_a_quotient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_KEPT_STAGES", ("10-graph.mlir",))
    function = PROGRAMS[name]
    with record.recording() as graphs:
        gradients(compiled(function, dynamic=True), [torch.randn(8, 24)])
    texts = [text for graph in graphs for text in graph.stages.values()]
    assert len(texts) == 2
    assert "//(" not in "".join(texts)


def test_sizes_that_do_not_divide() -> None:
    """They are another program, or refused as in eager mode."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 4).sum(1)

    other = compiled(function, dynamic=True)
    assert_same(other(torch.ones(8, 24)), function(torch.ones(8, 24)))
    assert_same(other(torch.ones(2, 6)), function(torch.ones(2, 6)))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="is invalid for input of size"):
        other(torch.ones(3, 3))
