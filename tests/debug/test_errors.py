"""Errors at run time name the operator and the user's line, and stay what they are in eager mode."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.compiling import IS_TILE, compiled, fresh, run_python

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    with torch.library._scoped_library("tile_failing", "DEF") as library:
        library.define("half(Tensor x) -> Tensor")
        library.impl("half", lambda x: x[: x.shape[0] // 2].clone(), "CPU")
        library.impl("half", lambda x: torch.empty_like(x), "Meta")  # a wrong shape
        library.define("refuses(Tensor x) -> Tensor")
        library.impl("refuses", refuse, "CPU")
        library.impl("refuses", lambda x: torch.empty_like(x), "Meta")
        yield


def refuse(x: torch.Tensor) -> torch.Tensor:
    raise LookupError("no such thing\nsecond line")


def raised_by(function: Callable[..., Any], *inputs: Any) -> BaseException:
    with pytest.raises(Exception) as error:
        function(*inputs)
    return error.value


def notes_of(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def test_an_operator_that_raises() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        return torch.ops.tile_failing.refuses(y) + 1  # the user's line

    error = raised_by(compiled(f), torch.randn(5))
    assert type(error) is LookupError and str(error) == "no such thing\nsecond line"
    text = "".join(traceback.format_exception(error))
    assert re.search(r"raised by tile_failing::refuses, from .*test_errors.py:\d+: return .*# the user's line", text)
    assert len(error.__notes__) == 1  # type: ignore[attr-defined]


def test_a_result_of_another_shape() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tile_failing.half(x).relu()  # the user's line

    error = raised_by(compiled(f), torch.randn(6))
    assert type(error) is RuntimeError
    assert str(error).startswith("result 0 of 'tile_failing::half' expected sizes [6], got [3]")
    assert re.search(r"raised by tile_failing::half, from .*test_errors.py:\d+: .*# the user's line", notes_of(error))


def test_an_operator_of_aten() -> None:
    """What depends on values, torch finds out in the call."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(x * 1, 2) + 1  # the user's line

    x = -torch.ones(4)
    error, eager = raised_by(compiled(f), x), raised_by(f, x)
    assert type(error) is type(eager) and str(error).splitlines()[0] == str(eager).splitlines()[0]
    assert re.search(r"raised by aten::multinomial, from .*test_errors.py:\d+: .*# the user's line", notes_of(error))


def test_a_check_that_is_an_effect() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x * 1) + 1  # the user's line

    error = raised_by(compiled(f), -torch.eye(4))
    assert type(error) is torch.linalg.LinAlgError
    found = r"raised by aten::_linalg_check_errors, from .*test_errors.py:\d+: .*# the user's line"
    assert re.search(found, notes_of(error))


def test_in_a_backward() -> None:
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return torch.ops.tile_failing.refuses(gradient)

    x = torch.randn(5, requires_grad=True)
    error = raised_by(compiled(lambda x: Refuses.apply(x).sum())(x).backward)
    assert isinstance(error, LookupError)
    assert "raised by tile_failing::refuses" in notes_of(error)


def test_an_index_out_of_range() -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        return y[i] * 2  # the user's line

    error = raised_by(compiled(f), torch.randn(5), torch.tensor([1, 10]))
    assert isinstance(error, IndexError)
    assert re.search(r"test_errors.py:\d+: .*# the user's line", notes_of(error) + str(error))


def test_a_call_that_succeeds_afterwards_and_one_that_fails_again() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x * 1) + 1

    function = compiled(f)
    for _ in range(2):
        assert notes_of(raised_by(function, -torch.eye(4))).count("raised by") == 1
        torch.testing.assert_close(function(torch.eye(4)), f(torch.eye(4)))


def test_from_the_disk_cache(cache_dir: Any, tmp_path: Any) -> None:
    """A warm start knows the lines too, unless the file has changed since."""
    file = tmp_path / "user.py"
    text = """
import torch
def f(x):
    return torch.multinomial(x * 1, 2) + 1  # the user's line
try:
    torch.compile(f, backend="tile", options={"strict": True})(-torch.ones(4))
except RuntimeError as error:
    print(error.__notes__)
"""
    run = f"import runpy; runpy.run_path({str(file)!r})"
    for content, expected in ((text, ":4: return torch"), (text, ":4: return torch"), ("#\n\n" + text, "multinomial")):
        file.write_text(content)
        notes = run_python(run)
        assert "raised by aten::" in notes and expected in notes
        if content != text:
            assert ":4:" not in notes


def test_profiler_shows_shapes_and_dtypes() -> None:
    fresh()
    function = compiled(lambda x, y: torch.softmax(x, -1) + y)
    x, y = torch.randn(33, 65), torch.randn(65)
    function(x, y)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        function(x, y)
    (event,) = [event for event in profile.events() if event.name.startswith("fused_")]
    assert event.input_shapes[:2] in ([[33, 65], [65]], [[65], [33, 65]])
    (raw,) = [e for e in profile.profiler.kineto_results.events() if e.name().startswith("fused_")]
    assert "float" in raw.dtypes()


def test_profiler_shows_kernels_of_the_language() -> None:
    import torch_tile
    import torch_tile.language as tl

    @torch_tile.jit
    def twice(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    x = torch.randn(100)
    out = torch.empty_like(x)
    twice[(1,)](x, out, 100, BLOCK=128)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        twice[(1,)](x, out, 100, BLOCK=128)
    (event,) = [event for event in profile.events() if event.name == "twice"]
    assert event.input_shapes == [[100], [100]]
