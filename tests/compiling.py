"""How tests compile and compare: the backend under test, equality with eager in values, dtypes, sizes, strides."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from tests import processes

ROOT = Path(__file__).resolve().parents[1]
# Another backend here (aot_eager, inductor) checks the tests themselves.
BACKEND = os.environ.get("TORCH_TILE_TEST_BACKEND", "tile")
IS_TILE = BACKEND == "tile"

tile_only = pytest.mark.skipif(not IS_TILE, reason=f"about the backend tile, TORCH_TILE_TEST_BACKEND is {BACKEND}")

# Relative and absolute tolerance of a few rounding errors: eager and a fused kernel round at different places.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-11, 1e-12),
    torch.float32: (4e-6, 4e-6),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
}


def compiled(
    function: Callable[..., Any], *, dynamic: bool | None = False, fullgraph: bool = True, **options: Any
) -> Callable[..., Any]:
    """`function` under the backend; a failure of the compiler is an error, not a fallback to eager."""
    extra = {"options": {"strict": True, **options}} if IS_TILE else {}
    return torch.compile(function, backend=BACKEND, dynamic=dynamic, fullgraph=fullgraph, **extra)


def fresh() -> None:
    """Forget compiled graphs and counts, in the middle of a test."""
    torch.compiler.reset()
    counters.clear()
    if IS_TILE:
        import torch_tile

        torch_tile.counters.clear()


def count(name: str) -> int:
    """One of the backend's counts since `fresh`."""
    import torch_tile

    return int(torch_tile.counters[name])


@dataclasses.dataclass
class Spent:
    """CPU seconds between ATen graphs and loaded programs, and the nodes of those graphs."""

    seconds: float = 0.0
    nodes: int = 0


@contextmanager
def compiler_seconds() -> Iterator[Spent]:
    """What compiles within the block take, without what Dynamo and AOTAutograd do before."""
    from torch_tile.frontend import compile as frontend

    spent, compile_one = Spent(), frontend._compile

    def timed(gm: Any, *args: Any) -> Any:
        start = time.process_time()
        try:
            return compile_one(gm, *args)
        finally:
            spent.seconds += time.process_time() - start
            spent.nodes += len(gm.graph.nodes)

    frontend._compile = timed
    try:
        yield spent
    finally:
        frontend._compile = compile_one


def strides_that_matter(tensor: torch.Tensor) -> list[int]:
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def assert_same(
    result: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    exact: bool = False,
    check_stride: bool = True,
) -> None:
    """Equal in structure, dtypes, sizes, strides and values; NaN equals NaN. `exact`: no tolerance."""
    results, spec = pytree.tree_flatten(result)
    expecteds, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    for index, (a, b) in enumerate(zip(results, expecteds, strict=True)):
        if not isinstance(b, torch.Tensor):
            assert a == b and type(a) is type(b)
            continue
        assert a.dtype == b.dtype and a.shape == b.shape, (
            f"result {index}: {a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        )
        if check_stride:
            assert strides_that_matter(a) == strides_that_matter(b), (
                f"result {index}: strides {a.stride()}, not {b.stride()}"
            )
        default = TOLERANCES.get(b.dtype, (0.0, 0.0))
        limits = (0.0, 0.0) if exact else (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
        if not b.dtype.is_floating_point and not b.dtype.is_complex:
            limits = (0.0, 0.0)
        torch.testing.assert_close(
            a,
            b,
            rtol=limits[0],
            atol=limits[1],
            equal_nan=True,
            check_stride=False,
            msg=lambda m, i=index: f"result {i}: {m}",
        )


def copy_inputs(arguments: Any) -> Any:
    """Fresh leaf tensors of the same values, strides and requires_grad."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        result = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
        if 0 in leaf.stride():
            result = (
                leaf.detach()
                .clone(memory_format=torch.contiguous_format)[
                    tuple(
                        slice(0, 1) if s == 0 and n > 1 else slice(None)
                        for n, s in zip(leaf.shape, leaf.stride(), strict=True)
                    )
                ]
                .clone()
                .expand(leaf.shape)
            )
        else:
            result.copy_(leaf.detach())
        return result.requires_grad_(leaf.requires_grad)

    return pytree.tree_map(copy, arguments)


def gradients(
    function: Callable[..., Any], arguments: Sequence[Any], constants: Sequence[int] = ()
) -> list[torch.Tensor | None]:
    """Gradients of every floating-point argument but the `constants`, for outputs weighted by fixed, uneven numbers."""
    arguments = copy_inputs(arguments)
    leaves = [
        t
        for i, t in enumerate(arguments)
        if isinstance(t, torch.Tensor) and t.is_floating_point() and i not in constants
    ]
    for leaf in leaves:
        leaf.requires_grad_(True)
    outputs = [
        t
        for t in pytree.tree_leaves(function(*arguments))
        if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()
    ]
    weights = [
        torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64, device=t.device).to(t.dtype).reshape(t.shape)
        for t in outputs
    ]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def run_python(code: str, *, imports: bool = True, **environment: str) -> str:
    """Runs code in a process of its own, from the root of the project; `imports` as for `processes.run`."""
    try:
        done = processes.run("-c", textwrap.dedent(code), env={**os.environ, **environment}, imports=imports)
    except subprocess.TimeoutExpired as end:  # what was written by then is bytes
        said = b"\n".join((stream or b"")[-4000:] for stream in (end.stdout, end.stderr)).decode(errors="replace")
        pytest.fail(f"no end within {end.timeout:.0f} s\n{said}")
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def timed_blocks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets the value of B of each configuration that autotuning times from now on."""
    from torch_tile.language.autotuner import Autotuner

    found: list[Any] = []
    measure = Autotuner._time

    def spy(self: Any, candidate: Any, *arguments: Any) -> float:
        found.append(candidate.kwargs["B"])
        return measure(self, candidate, *arguments)

    monkeypatch.setattr(Autotuner, "_time", spy)
    return found


def assert_same_or_refused(other: Callable[..., Any], function: Callable[..., Any], x: torch.Tensor) -> None:
    """Bits, sizes and what is written of eager mode; RuntimeError where eager mode raises it."""
    given = x.clone()
    try:
        expected = function(x)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            other(given)
        return
    assert_same(other(given), expected, exact=True, check_stride=x.numel() > 0)
    assert_same(given, x, exact=True)
