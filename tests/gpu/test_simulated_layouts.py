"""Random programs over random layouts (benchmarks/suites/layouts.py), as kernels for a GPU that run on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

from tests.compiling import ROOT, fresh
from tests.gpu import simulated_graphs, simulator
from torch_tile import _C
from torch_tile.frontend import aot
from torch_tile.frontend.decompositions import variances

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "i1": torch.bool, "i32": torch.int32}


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", text)]


def allocate(type_: str) -> torch.Tensor:
    """A tensor of a type `[sizes], element, [strides]`, of which nothing is zero."""
    found = re.fullmatch(r"\[([\d, ]*)\], (\w+)(?:, \[([\d, ]*)\])?", type_)
    assert found is not None, type_
    shape, dtype = numbers(found.group(1)), DTYPES[found.group(2)]
    if found.group(3) is None:
        return torch.ones(shape, dtype=dtype)
    strides = numbers(found.group(3))
    return torch.ones(1 + sum((s - 1) * t for s, t in zip(shape, strides, strict=True)), dtype=dtype).as_strided(
        shape, strides
    )


class Program:
    """All kernels of a graph, in the order of their launches."""

    def __init__(self, text: str, alternative: int = 0) -> None:
        self.text = text
        files: dict[str, str] = {}
        options = {"target": "sm_90", "schedules": str(alternative)}
        _C.compile_graph(text, options, None, 0, files.__setitem__, [None] * 64, device="cuda:0", architecture="sm_90")
        tiles = files["30-tile.mlir"]
        self.schedules = re.findall(r'schedule = "(.*?)"', tiles)
        self.steps = [line for line in tiles.splitlines() if re.match(r" *%\d+(:\d+)? = graph", line)]
        self.launches = [line for line in self.steps if "graph.launch" in line]
        self.together = {
            kernel.split(" ", 1)[0]: int(several.group(1))
            if (several := re.search(r"tile.programs_per_block = (\d+)", kernel))
            else 0
            for kernel in tiles.split("tile.kernel @")[1:]
            for kernel in [kernel.replace("(", " ", 1)]
        }
        code = {
            re.search(r"@tile_(\w+)\(", module).group(1)[:12]: module  # type: ignore[union-attr]
            for module in files["50-kernel.ll"].split("; ModuleID")[1:]
        }
        self.kernels = {
            name: simulator.Simulated("; ModuleID" + code[key])
            for name, key in re.findall(r"^kernel \d+: (\w+) (\w+) ", files["55-program.txt"], flags=re.M)
        }
        returned = re.search(r"graph.return (.*?) :", tiles)
        assert returned is not None
        self.returned = [name.strip() for name in returned.group(1).split(",")]
        self.graph = tiles[: tiles.index("graph.return")]

    def run(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        values = {f"%arg{k}": argument for k, argument in enumerate(arguments)}
        for line in self.steps:
            types = re.findall(r"<(\[.*?)>", line.rsplit("->", 1)[1])
            results = [allocate(type_) for type_ in types]
            name = re.split(r"[: ]", line.strip())[0]
            if alias := re.search(r"graph.alias (\S+) {offset = #graph.expr<(\d+)>}", line):
                source = values[alias.group(1)]
                shape, strides = results[0].shape, results[0].stride()
                values[name] = source.as_strided(shape, strides, int(alias.group(2)))
                continue
            launch = re.search(r"graph.launch @(\w+)\((.*?)\) integers \[(.*?)\] programs (\d+) ", line)
            assert launch is not None, line
            kernel, operands, integers, programs = launch.groups()
            inputs = [values[operand.strip()] for operand in operands.split(",") if operand.strip()]
            for k, result in enumerate(results):
                values[f"{name}#{k}" if len(results) > 1 else name] = result
            pointers = [tensor.data_ptr() for tensor in (*inputs, *results)]
            blocks, extra = int(programs), numbers(integers)
            if several := self.together[kernel]:
                extra.append(blocks)
                blocks = -(-blocks // several)
            self.kernels[kernel].run((blocks, 1, 1), [*pointers, *extra])
        return [values[name] for name in self.returned]


def compiled(function: Callable[[torch.Tensor], Any], x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Program:
    texts = []

    def compile_for_gpu(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
        graph = _C.print_graph(gm)
        assert not graph.externs
        texts.append(graph.text)
        return make_boxed_func(gm.forward)

    monkeypatch.setattr(aot, "compile_graph", compile_for_gpu)
    monkeypatch.setattr(variances, "_is_wide", lambda *_: False)  # as on a GPU
    fresh()
    torch.compile(function, backend="tile", dynamic=False)(x)
    return Program(texts[0])


def check(function: Callable[[torch.Tensor], Any], x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Program:
    program = compiled(function, x, monkeypatch)
    (result,), expected = program.run(x), function(x.double())
    low = x.dtype == torch.bfloat16 and result.dtype == torch.bfloat16
    tolerance = 2e-2 if low else 1e-4 if result.is_floating_point() else 0
    torch.testing.assert_close(result.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return program


@pytest.mark.parametrize(
    "function, shape, dtype",
    [
        (lambda x: x.float().sum(-1) * 2, (2200, 63), torch.bfloat16),
        (lambda x: x.float().var(-1), (700, 12, 48), torch.bfloat16),
        (lambda x: x.softmax(1), (300, 17, 5), torch.float32),
        (lambda x: x == x.amax(1, keepdim=True), (1400, 33), torch.bfloat16),
        (lambda x: x.sum(0) * 3, (545, 7), torch.float32),
    ],
)
def test_every_schedule(function: Any, shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: Any) -> None:
    """Whatever may be timed gives the same results: rows in one warp and in several, by shuffles and shared memory."""
    x = torch.randn(shape).to(dtype)
    program = check(function, x, monkeypatch)
    expected = function(x.double() if dtype == torch.float32 else x)
    seen = set(program.schedules)
    for alternative in range(1, 25):
        other = Program(program.text, alternative)
        if seen.issuperset(other.schedules):
            continue
        seen.update(other.schedules)
        (result,) = other.run(x)
        torch.testing.assert_close(result.double(), expected.double(), rtol=1e-4, atol=1e-4, msg=str(other.schedules))
    assert len(seen) > 8, seen


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8])
def test_rows_of_bytes(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread has at most 64 elements of a tile, also where a piece of 16 bytes has sixteen."""
    for shape in ((300000, 48), (16384, 4096), (22369, 3000), (1024, 65536)):
        compiled(lambda x: x.sum(-1), torch.zeros(shape, dtype=dtype), monkeypatch)
    for shape in ((3000, 48), (70, 4096), (40, 3000), (3, 65536)):
        check(lambda x: x.sum(-1), torch.randint(0, 2, shape).to(dtype), monkeypatch)


@pytest.mark.parametrize("number", range(20))
def test_random_program(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from suites import layouts

    program = layouts.draw(9000 + number, 1 << 15)
    torch.manual_seed(number)
    check(program.function, program.layout.make("cpu"), monkeypatch)


def test_roll_is_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that follow one another around the end are one load; several axes are one kernel."""
    x = torch.randn(6, 40, 5, 12)
    program = check(lambda x: x.roll((3, -1, 2), (1, 2, 3)) * 2, x.permute(0, 3, 2, 1), monkeypatch)
    assert len(program.launches) == 1


@pytest.mark.parametrize(
    "shape, dims", [((8, 70001), [1]), ((70001, 8), [0]), ((5, 700, 33), [0, 1]), ((3000, 24), [1])]
)
def test_variance(shape: tuple[int, ...], dims: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(shape) + 100
    check(lambda x: x.var(dims), x, monkeypatch)


def _strided(sizes: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Dense, with dimensions in memory in this order, outermost first."""
    stored = torch.randn([sizes[d] for d in order]).to(dtype)
    return stored.permute([order.index(d) for d in range(len(order))])


@pytest.mark.parametrize(
    "function, made",
    [
        (lambda x: x.flip(1) * 2, lambda: _strided(((1 << 20) + 1, 2, 2), (0, 1, 2))),
        (lambda x: x.roll((1, 1), (1, 2)) + 1, lambda: _strided((1 << 17, 3, 4), (0, 1, 2))),
        (lambda x: torch.cat([x[:, :1], x], 1), lambda: _strided(((1 << 19) - 1, 3, 2), (0, 1, 2))),
        (lambda x: x.permute(0, 2, 1).contiguous(), lambda: _strided((1 << 18, 2, 3), (0, 1, 2))),
        (lambda x: x == x.amax((0, 2), keepdim=True), lambda: _strided((60001, 8, 16), (0, 1, 2), torch.bfloat16)),
    ],
)
def test_short_axes_are_one_with_their_neighbours(
    function: Callable[[torch.Tensor], Any], made: Callable[[], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = check(function, made(), monkeypatch)
    assert any("flat" in schedule for schedule in program.schedules), program.schedules


@pytest.mark.parametrize(
    "function, shape",
    [
        (lambda x: x.flip(1) * 2, ((1 << 20) + 1, 2, 2)),
        (lambda x: torch.cat([x[:, :1], x], 1) + 1, ((1 << 19) - 1, 3, 2)),
        (lambda x: x.permute(0, 2, 1).contiguous(), (1 << 18, 2, 3)),
    ],
)
def test_short_axes_beside_one_of_unknown_length(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    torch._dynamo.mark_dynamic(x, 0)
    files = simulated_graphs.compile_for_gpu(function, x)
    assert any("flat = s0*" in schedule for schedule in simulated_graphs.schedules(files))
    graph = simulated_graphs.SimulatedGraph(files)
    for length in (1, 7, 1000):
        x = torch.randn(length, *shape[1:])
        assert torch.equal(graph.run(x)[0], function(x))


@pytest.mark.parametrize(
    "function, made",
    [
        (lambda x: torch.cat([x[:, :63], x], 1), lambda: _strided((8, 127, 28, 51), (2, 1, 3, 0), torch.bfloat16)),
        (lambda x: torch.cat([x[:12], x], 0), lambda: _strided((24, 64, 2, 96, 24), (1, 4, 2, 0, 3), torch.bfloat16)),
    ],
)
def test_programs_that_run_together_share_memory(
    function: Callable[[torch.Tensor], Any], made: Callable[[], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = check(function, made(), monkeypatch)
    assert any("grid order" in schedule for schedule in program.schedules), program.schedules


@pytest.mark.parametrize(
    "function, made",
    [
        # Reduced in the middle, side by side, far apart and all at once; values of it are read again.
        (lambda x: x.softmax(1), lambda: _strided((200003, 4, 2), (0, 1, 2))),
        (lambda x: x.softmax(3), lambda: _strided((513, 16, 4, 4, 2), (0, 4, 1, 2, 3), torch.bfloat16)),
        (lambda x: x.var(1), lambda: _strided((700001, 3), (1, 0))),
        (lambda x: x.argmax(2), lambda: _strided((70001, 7, 4), (0, 1, 2))),
        (lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True), lambda: _strided((7, 6, 40001), (1, 2, 0))),
    ],
)
def test_short_reduced_axes_have_no_loop(
    function: Callable[[torch.Tensor], Any], made: Callable[[], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = check(function, made(), monkeypatch)
    (schedule,) = program.schedules
    extent = re.search(r"reduce \w+ = (\d+)", schedule)
    assert extent is not None
    assert f"unroll {extent.group(1)} " in schedule or f"vector axis r0 lanes {extent.group(1)} " in schedule, schedule


@pytest.mark.parametrize(
    "function", [lambda x: x.sum(1), lambda x: x.var(1, correction=0), lambda x: x.amax(1), lambda x: x.argmax(1)]
)
@pytest.mark.parametrize("length", [1000003, 1 << 20])
def test_pieces_of_long_rows(
    function: Callable[[torch.Tensor], Any], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last piece of a length that nothing divides has masks."""
    program = check(function, torch.randn(3, length).to(torch.bfloat16).float() + 3, monkeypatch)
    assert len(program.launches) == 2


def test_values_between_kernels_lie_like_what_they_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _strided((40, 12, 8, 99, 5), (4, 0, 3, 2, 1), torch.bfloat16)
    program = check(lambda x: x == x.amax((0, 4), keepdim=True), x, monkeypatch)
    assert any("[1, 12, 8, 99, 1], f32, [1, 1, 12, 96, 1]" in step for step in program.steps), program.steps


def test_short_runs_of_memory_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the reduced axes, one that is not contiguous is cut into pieces."""
    program = check(
        lambda x: x.var((1, 2, 3)), _strided((61, 3, 25, 49, 4), (3, 1, 4, 0, 2), torch.bfloat16), monkeypatch
    )
    assert len(program.launches) == 2
    assert any("reduce r1 = 25" in schedule for schedule in program.schedules), program.schedules


def test_axes_that_are_one_need_not_be_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    program = check(lambda x: x.softmax(3), _strided((33, 16, 8, 4, 2), (0, 4, 1, 2, 3)), monkeypatch)
    (schedule,) = program.schedules
    assert "mi0 = 128" in schedule, schedule


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x, x[:, :5001]], 1),
        lambda x: torch.cat([x[:, 3:], x + 1], 1),
        lambda x: torch.nn.functional.pad(x, (4500, 7)),
        lambda x: torch.where(torch.arange(x.shape[1]) < 6001, x, -x),
    ],
)
def test_tiles_on_one_side_of_an_edge(
    function: Callable[[torch.Tensor], Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles that end before an edge, reach across it, and lie near it; rows that begin anywhere."""
    for length in (12001, 12288):
        check(function, torch.randn(3, length).to(dtype), monkeypatch)


@pytest.mark.parametrize(
    "shape, first, second",
    [
        ((97, 17, 5, 33), (1, 3, 0, 2), (0, 3, 1, 2)),
        ((33, 97, 3, 5, 3), (2, 3, 1, 0, 4), (2, 3, 1, 4, 0)),
        ((5, 64, 97, 17), (1, 2, 3, 0), (0, 1, 3, 2)),
    ],
)
def test_results_of_different_orders(
    shape: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Axes along which one result has no gaps, and another does."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.permute(first) * 2 + 1
        return y.contiguous(), y.permute(second).contiguous()

    x = torch.randn(shape)
    for result, expected in zip(compiled(function, x, monkeypatch).run(x), function(x), strict=True):
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()


def test_rows_are_stored_in_the_loop_that_reduces_them() -> None:
    # The rounded row is a result, too; the last tile of the loop is shorter than the others.
    def rounded_and_reduced(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rounded = (x[:, :50257].float() * 2).to(x.dtype)
        wide = rounded.float()
        largest = wide.amax(1, keepdim=True)
        return rounded, largest, (wide - largest).exp().sum(1, keepdim=True)

    x = torch.randn(264, 50264).bfloat16()
    files = simulated_graphs.compile_for_gpu(rounded_and_reduced, x)
    (schedule,) = simulated_graphs.schedules(files)
    assert "online" in schedule and "last lanes" in schedule
    torch.testing.assert_close(simulated_graphs.SimulatedGraph(files).run(x), rounded_and_reduced(x), rtol=1e-5, atol=0)


def _with_infinities(x: torch.Tensor) -> torch.Tensor:
    """Columns with one infinity, with nothing but -inf, with NaN, and of the lowest number."""
    x[3, 1], x[2, 2], x[:, 3], x[5, 4], x[:, 5] = torch.inf, -torch.inf, -torch.inf, torch.nan, -3.3e38
    return x


@pytest.mark.parametrize(
    "function, made, reads",
    [
        (lambda x: x.softmax(0), lambda: _with_infinities(torch.randn(700, 1000)), 2),
        (lambda x: x.logsumexp(0), lambda: _with_infinities(torch.randn(4000, 40)), 1),
        (lambda x: x.logsumexp(0), lambda: _with_infinities(torch.randn(130, 2000)), 1),
        (lambda x: x.float().logsumexp((0, 2)), lambda: _strided((65, 300, 12), (2, 0, 1), torch.bfloat16), 1),
        (lambda x: x.float().log_softmax(1), lambda: _strided((3, 511, 129), (0, 1, 2), torch.bfloat16), 2),
        (lambda x: x.softmax(1), lambda: torch.randn(3, 200003), 2),
        (lambda x: torch.where(x > 1.5, -torch.inf, x).softmax(0), lambda: torch.randn(999, 65), 2),
    ],
)
def test_maximum_and_sum_of_exponentials_are_one_reduction(
    function: Callable[[torch.Tensor], Any],
    made: Callable[[], torch.Tensor],
    reads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a program does not have its row to itself: what is reduced is read once."""
    program = check(function, made(), monkeypatch)
    assert sum("%arg0" in launch for launch in program.launches) == reads, program.launches


def test_rows_that_are_written_across_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows are reduced along memory, by a kernel of their own."""
    x = _strided((9001, 300), (1, 0), torch.bfloat16)
    program = check(lambda x: x.softmax(0), x, monkeypatch)
    assert "vector axis r0" in program.schedules[0] and "reduce" not in program.schedules[-1], program.schedules


@pytest.mark.parametrize("length", [3, 5, 17, 23])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_short_rows_are_whole_tiles(length: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a length that is no power of two have no masks when they are copied to another order."""
    program = check(lambda x: x.permute(0, 2, 1).contiguous(), torch.randn(70, 514, length).to(dtype), monkeypatch)
    check(lambda x: x.flip(2) * 2, torch.randn(7, 5140, length).to(dtype), monkeypatch)
    assert length < 16 or any(f"lanes {length} " in schedule for schedule in program.schedules), program.schedules
