"""torch_tile.explain and torch_tile.expect: what they say, and that they leave Dynamo alone."""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters as dynamo_counters
from torch._higher_order_ops import map as map_over

import torch_tile
from tests.compiling import IS_TILE, compiled, fresh

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))  # the user's line


def layers(count: int) -> torch.nn.Module:
    return torch.nn.Sequential(*(Block() for _ in range(count)))


def test_summary_of_training() -> None:
    """Ten lines with all that is asked for, of a compiled module, forward and backward."""
    model = torch.compile(layers(12), backend="tile")
    explanation = torch_tile.explain(model, torch.randn(4, 7, 32))
    text = str(explanation)
    lines = text.splitlines()
    assert len(lines) <= 10
    assert lines[0].startswith("2 graphs (forward, backward), compiled in ")
    assert " kernels in " in lines[1] and " launches, 72 calls outside, 0 graphs in eager mode" in lines[1]
    assert lines[2].startswith("bytes moved by a call: ") and " by kernels, " in lines[2]
    assert (
        lines[3].startswith("planned peak memory, beside arguments and parameters: ") and "eager mode's: " in lines[3]
    )
    assert lines[4] == "largest calls outside:"
    assert "48 x " in lines[5] and "aten::mm: library call (matrix product), from " in lines[5]
    assert "test_explain.py:" in lines[5] and "# the user's line" in lines[5]
    assert lines[-1] == "no graph breaks"
    assert [g.kind for g in explanation.graphs] == ["forward", "backward"]
    assert all(parameter.grad is None for parameter in model.parameters())
    details = explanation.details()
    assert "12 x kernel fused_gelu: " in details
    # Of twelve equal layers each decision and each call is said once, with the user's line.
    assert "  outside 24 x aten::addmm: library call (matrix product), from " in details
    assert len([line for line in details.splitlines() if "outside" in line and "addmm" in line]) == 1
    assert "x yes inline native_layer_norm (" in details and "test_explain.py:" in details
    assert not re.search(r"\bline \d", details)


def _cond(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


def _while(x: torch.Tensor) -> torch.Tensor:
    def advance(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, x.sin()

    return torch.while_loop(lambda i, x: i < 5, advance, (torch.tensor(0), x))[1]


def _map(x: torch.Tensor) -> torch.Tensor:
    return map_over(lambda y: y.sin(), x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("f", "kernels"), [(_cond, {"sin", "cos"}), (_while, {"sin"}), (_map, {"sin"})])
def test_bytes_of_branches_and_loops(f: Callable[..., Any], kernels: set[str], dynamic: bool) -> None:
    """Each body counts once; a step of a map moves one slice."""
    explanation = torch_tile.explain(f, torch.randn(8, 1024), dynamic=dynamic)
    (graph,) = explanation.graphs
    moved = {name: kernel.hinted_bytes for kernel in graph.kernels for name in kernels if name in kernel.name}
    elements = 1024 if f is _map else 8 * 1024
    assert moved == dict.fromkeys(kernels, 2 * 4 * elements)
    assert explanation.kernel_bytes >= sum(moved.values())
    assert str(explanation).splitlines()[2].endswith(" outside, with each branch and one iteration of each loop")


def test_bytes_of_what_several_layers_share() -> None:
    """A shared region moves its bytes in each of its calls."""

    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2 + x.sum(-1, keepdim=True)

    one, three = (torch_tile.explain(f, torch.randn(8, 1024)) for f in (layer, lambda x: layer(layer(layer(x)))))
    assert three.kernel_bytes == 3 * one.kernel_bytes > 0
    assert "iteration" not in str(three)


def test_arguments_with_names_of_its_own() -> None:
    """functools.partial hands them on."""

    def f(x: torch.Tensor, mode: str, options: int, dynamic: bool, verbose: str) -> torch.Tensor:
        assert (mode, options, dynamic, verbose) == ("sum", 3, True, "v")
        return x.sum() if mode == "sum" else x.sin()

    bound = functools.partial(f, mode="sum", options=3, dynamic=True, verbose="v")
    explanation = torch_tile.explain(bound, torch.randn(8), verbose=True)
    assert [kernel.name for graph in explanation.graphs for kernel in graph.kernels] == ["fused_sum"]


def test_library_calls_and_missing_kernels() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.bucketize(x @ x, x[0].contiguous())
        return torch.histc((x.sort().values @ x) + y, 4) + torch.linalg.det(x)

    calls = {call.operator: call for graph in torch_tile.explain(f, torch.randn(8, 8)).graphs for call in graph.calls}
    assert calls["aten::mm"].why == "library call (matrix product)" and calls["aten::mm"].is_by_choice
    assert calls["aten::sort"].why == "library call (sorting)"
    assert calls["aten::histc"].why == "no kernel for this operator yet" and not calls["aten::histc"].is_by_choice
    assert calls["aten::_linalg_det"].why == "library call (linear algebra)"
    assert calls["aten::mm"].num_bytes == 3 * 8 * 8 * 4


@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_of_gathered_rows_are_those_read(dynamic: bool) -> None:
    table, rows = torch.randn(20000, 64), torch.tensor([3, 19999, 3])
    found = torch_tile.explain(lambda x, i: x[i] * 2, table, rows, dynamic=dynamic).kernel_bytes
    assert found == 2 * 3 * 64 * 4 + 3 * 8


def test_the_seed_of_dropout_is_a_library_call() -> None:
    explanation = torch_tile.explain(lambda x: F.dropout(x, 0.5) + 1, torch.randn(64))
    (call,) = [call for graph in explanation.graphs for call in graph.calls]
    assert call.operator.startswith("aten::randint") and call.why == "library call (random numbers)"


def test_an_operator_of_a_library_is_named_so() -> None:
    with torch.library._scoped_library("tile_explained", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        text = str(torch_tile.explain(lambda x: torch.ops.tile_explained.twice(x) + 1, torch.randn(5)))
    assert "tile_explained::twice: operator of the library 'tile_explained', of which nothing is known here" in text


def test_graph_breaks_have_places() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()  # here
        y = y + 1
        print("", end="")  # and here
        return y * 3

    explanation = torch_tile.explain(f, torch.randn(5))
    assert len(explanation.graph_breaks) == 2 and len(explanation.graphs) == 3
    first, second = explanation.graph_breaks
    assert first.place is not None and second.place is not None
    assert "test_explain.py:" in first.place and first.place.endswith("torch._dynamo.graph_break()  # here")
    assert second.place.endswith("# and here")
    assert "2 graph breaks, the first at " in str(explanation)
    assert "1 x " in explanation.details().partition("graph breaks:")[2]


def test_dynamo_is_left_alone() -> None:
    """A function that was compiled before still is, for the sizes it was compiled for, and nothing is counted."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        return y + 1

    function = torch.compile(f, backend="tile")
    x = torch.randn(5)
    function(x)
    fresh_counts = copy.deepcopy({name: Counter(values) for name, values in dynamo_counters.items()})
    own = torch_tile.counters.snapshot()
    for other in (torch.randn(6), torch.randn(7), torch.randn(7, 3)):
        assert torch_tile.explain(function, other).graphs
    assert torch_tile.explain(function, x, dynamic=True).num_kernels == 2
    assert {name: Counter(values) for name, values in dynamo_counters.items() if values} == {
        name: values for name, values in fresh_counts.items() if values
    }
    assert torch_tile.counters.snapshot() == own
    with torch.compiler.set_stance("fail_on_recompile"):
        function(x)
    # Other sizes that were explained have not been learnt: the next size is the first other one, and dynamic.
    function(torch.randn(9))
    with torch.compiler.set_stance("fail_on_recompile"):
        function(torch.randn(31))
        function(x)


def test_modules_compiled_in_place() -> None:
    model = layers(2)
    model.compile(backend="tile")
    x = torch.randn(4, 7, 32)
    model(x)
    assert [g.kind for g in torch_tile.explain(model, x).graphs] == ["forward", "backward"]
    with torch.compiler.set_stance("fail_on_recompile"):
        model(x)


def test_options_and_modes_are_taken() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * 2

    x = torch.randn(5, 9)
    fused = torch_tile.explain(f, x).num_launches
    assert torch_tile.explain(f, x, options={"fusion": False}).num_launches > fused
    with pytest.raises(torch_tile.OptionError, match="fastest"):
        torch_tile.explain(f, x, mode="fastest")
    sizes = torch_tile.explain(f, x, dynamic=True).graphs[0].kernels[0]
    assert sizes.bytes_moved is None and sizes.hinted_bytes == torch_tile.explain(f, x).kernel_bytes


def test_of_a_compiled_function_its_arguments_are_taken() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) @ x.t() * 2

    x = torch.randn(5, 9)
    apart = torch_tile.explain(f, x, options={"fusion": False}).num_launches
    assert apart > torch_tile.explain(f, x).num_launches
    for function in (
        torch.compile(f, backend="tile", options={"fusion": False}),
        torch.compile(f, backend="tile", mode="lite"),
    ):
        explanation = torch_tile.explain(function, x)
        assert explanation.num_launches == apart and explanation.other_backend is None
        assert torch_tile.explain(function, x, options={}).num_launches < apart
    dynamic = torch_tile.explain(torch.compile(f, backend="tile", dynamic=True), x)
    assert all(kernel.bytes_moved is None for kernel in dynamic.graphs[0].kernels)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_function_compiled_for_another_backend(backend: str) -> None:
    """It is compiled for this one, which is said; nothing of the other one runs."""
    x = torch.randn(5, 9)
    model = torch.nn.Linear(9, 4)
    in_place = torch.nn.Linear(9, 4)
    in_place.compile(backend=backend)
    for function in (torch.compile(fused, backend=backend), torch.compile(model, backend=backend), in_place):
        explanation = torch_tile.explain(function, x)
        assert explanation.graphs and explanation.num_kernels == 1
        assert str(explanation).splitlines()[0].endswith(f"; the function itself is compiled for {backend!r}")
    assert "itself is compiled" not in str(torch_tile.explain(fused, x))

    def own(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        raise AssertionError("the other backend is called")

    assert torch_tile.explain(torch.compile(fused, backend=own), x).other_backend == "own"


def test_what_cannot_be_explained() -> None:
    fn: Any = 3
    with pytest.raises(TypeError, match=r"fn expected a function or module, got int: call it as explain\(fn, \*arg"):
        torch_tile.explain(fn)
    disabled = torch.compiler.disable(lambda x: x.sin() + 1)
    text = str(torch_tile.explain(disabled, torch.ones(3)))
    assert text.startswith("1 graph (inference)") and "is compiled for" not in text


def test_what_falls_back_says_why() -> None:
    from torch_tile.debug import faults

    with faults.injected("run_passes", "exception"), pytest.warns(UserWarning, match="runs in eager mode"):
        explanation = torch_tile.explain(lambda x: x + 1, torch.randn(5))
    assert "1 graph in eager mode" in str(explanation) and "KeyError: 'injected fault'" in str(explanation)


def test_a_function_without_tensors() -> None:
    assert str(torch_tile.explain(lambda: 3)).startswith("no graph was compiled")


# expect


def fused(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, -1) + 1


def sorted_between(x: torch.Tensor) -> torch.Tensor:
    return (torch.softmax(x, -1) - torch.softmax(x, 0)) @ x.sort().values  # not one kernel


def test_expected() -> None:
    with torch_tile.expect(kernels=1, outside=0, graphs=1) as explanation:
        compiled(fused)(torch.randn(5, 9))
    assert explanation.num_kernels == 1
    fresh()
    with torch_tile.expect(outside={torch.ops.aten.mm.default, torch.ops.aten.sort}):
        compiled(sorted_between)(torch.randn(5, 5))
    fresh()
    with torch_tile.expect(kernels=range(1, 4), outside={"mm", "aten::sort"}, graphs=lambda n: n < 3):
        compiled(sorted_between)(torch.randn(5, 5))


def failure(**expected: Any) -> str:
    fresh()
    with pytest.raises(AssertionError) as error, torch_tile.expect(**expected):
        compiled(sorted_between)(torch.randn(5, 5))
    return str(error.value)


def test_expectations_of_another_kind() -> None:
    cases: list[tuple[str, Any]] = [
        ("kernels", "1"),
        ("kernels", True),
        ("graphs", 1.5),
        ("outside", "mm"),
        ("outside", {"mm", 3}),
    ]
    for name, expected in cases:
        with (
            pytest.raises(TypeError, match=f"{name} expected an int, a range or .*, got "),
            torch_tile.expect(**{name: expected}),
        ):
            pass


def test_unexpected() -> None:
    text = failure(kernels=1, outside={"mm"}, graphs=2)
    assert text.startswith("expected graphs=2, got 1; expected kernels=1, got 2; expected outside=['mm'], got aten::s")
    assert "    kernel fused_" in text and "test_explain.py:" in text
    assert "# not one kernel" in text and "outside aten::sort: library call (sorting), from " in text
    assert "    not fused: " in text
    assert failure(outside={"mm", "sort", "topk"}).startswith(
        "expected outside=['mm', 'sort', 'topk'], got topk not called"
    )
    assert failure(outside=range(1)).startswith("expected outside=range(0, 1), got 2")


def test_what_was_compiled_before_is_not_expected() -> None:
    function = compiled(fused)
    function(torch.randn(5, 9))
    with pytest.raises(AssertionError, match=r"(?s)expected kernels=1, got 0.*torch.compiler.reset\(\)"):  # noqa: SIM117
        with torch_tile.expect(kernels=1):
            function(torch.randn(5, 9))


def test_a_fallback_is_not_expected() -> None:
    from torch_tile.debug import faults

    function = torch.compile(fused, backend="tile")
    with (
        pytest.raises(AssertionError, match=r"(?s)expected fallbacks=0, got 1.*eager mode: KeyError: 'injected fault'"),
        pytest.warns(UserWarning),
        torch_tile.expect(),
        faults.injected("run_passes", "exception"),
    ):
        function(torch.randn(5, 9))


def test_an_exception_in_the_block_is_what_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), torch_tile.expect(kernels=5):
        raise ZeroDivisionError


@pytest.mark.parametrize("reset", [torch._dynamo.reset, torch.compiler.reset])
def test_a_reset_in_the_block(reset: Callable[[], None]) -> None:
    """What is compiled after it counts, and its time."""
    from torch._dynamo.callback import callback_handler

    from torch_tile.debug.explain import recorded

    def program(x: torch.Tensor) -> torch.Tensor:
        reset()
        return torch.compile(lambda x: x.sin() + 1, backend="tile")(x)

    x = torch.randn(4)
    others = list(callback_handler.start_callbacks)
    with torch_tile.expect(kernels=1, outside=0), recorded() as outer, recorded() as inner:
        program(x)
    assert outer.graphs and inner.graphs
    assert min(outer.compile_ms, inner.compile_ms) > sum(graph.compile_ms for graph in inner.graphs)
    with pytest.raises(AssertionError, match="expected kernels=2, got 1"), torch_tile.expect(kernels=2):
        program(x)
    with pytest.raises(ValueError, match="mine"), torch_tile.expect():
        reset()
        raise ValueError("mine")
    assert callback_handler.start_callbacks in ([], others)
    assert "clear" not in vars(callback_handler)


def test_names_the_reason_where_no_graph_is_compiled() -> None:
    def double(x: Any) -> Any:
        return x * 2

    sparse = torch.eye(3).to_sparse()
    text = str(torch_tile.explain(double, sparse))
    assert text == "no graph was compiled: Dynamo left it to eager mode: torch.compile does not support sparse Tensors"
    torch.compile(double, backend="tile")(sparse)  # from now on Dynamo skips it without a word
    text = str(torch_tile.explain(double, x=sparse))
    assert text == "no graph was compiled: an argument is a sparse tensor, which Dynamo leaves to eager mode"
    text = str(torch_tile.explain(lambda x: x, 3))
    assert text == "no graph was compiled: nothing in the call is torch's, or Dynamo gave it up"


def test_options_are_those_of_torch_compile() -> None:
    with pytest.raises(torch_tile.OptionError, match=r"a mode or options, got both.*list_mode_options\('lite'\)"):
        torch_tile.explain(torch.sin, torch.ones(2), mode="lite", options={"fusion": True})
    with pytest.raises(torch_tile.OptionError, match=r"got 'aten\.nosuch\.default'"):
        torch_tile.explain(torch.sin, torch.ones(2), options={"disable_passes": "aten.nosuch.default"})
