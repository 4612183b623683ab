"""An index out of range names the operator, the user's line, the index and the size, with the class of eager mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import IS_TILE, compiled, fresh, run_python

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OUTSIDE = torch.tensor([1, 10])


def raised_by(function: Callable[..., Any], *inputs: Any) -> BaseException:
    with pytest.raises(Exception) as error:
        function(*inputs)
    return error.value


def note_of(error: BaseException) -> str:
    (note,) = getattr(error, "__notes__", ("",))
    return str(note)


def over(i: torch.Tensor) -> torch.Tensor:
    return i[:, None].expand(2, 7)


# The operator as the note names it, the dimension of 5 or 7 elements, and a function of x of 5 x 7 and of indices.
CASES: list[tuple[str, int, Function]] = [
    ("aten::index.Tensor", 0, lambda x, i: x.exp()[i] * 2),
    ("aten::index.Tensor", 1, lambda x, i: x.exp()[:, i] * 2),
    ("aten::embedding", 0, lambda x, i: F.embedding(i, x) * 2),
    ("aten::gather", 0, lambda x, i: torch.gather(x, 0, over(i)) + 1),
    ("aten::index_select", 0, lambda x, i: x.index_select(0, i) + 1),
    ("aten::index_select", 1, lambda x, i: x.index_select(1, i) + 1),
    ("aten::index_put", 0, lambda x, i: x.index_put((i,), x[0]) + 1),
    ("aten::scatter.src", 0, lambda x, i: x.scatter(0, over(i), x[:2]) + 1),
    ("aten::scatter.value", 0, lambda x, i: x.scatter(0, over(i), 2.0) + 1),
    ("aten::scatter_add", 0, lambda x, i: x.scatter_add(0, over(i), x[:2]) + 1),
    ("aten::scatter_reduce.two", 0, lambda x, i: x.scatter_reduce(0, over(i), x[:2], "amax") + 1),
    ("aten::index_add", 0, lambda x, i: x.index_add(0, i, x[:2]) + 1),
    ("aten::index_add", 0, lambda x, i: x[:, 0].contiguous().index_add(0, i, x[0, :2]) + 1),
    ("aten::index_copy", 0, lambda x, i: x.index_copy(0, i, x[:2]) + 1),
    ("aten::index_fill.int_Scalar", 0, lambda x, i: x.index_fill(0, i, 3) + 1),
    ("aten::nll_loss_forward", 1, lambda x, i: F.cross_entropy(x[:2], i)),
]


@pytest.mark.parametrize(("operator", "dim", "f"), CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_operator_line_index_and_size(operator: str, dim: int, f: Function) -> None:
    x = torch.randn(5, 7)
    error, eager = raised_by(compiled(f), x.clone(), OUTSIDE), raised_by(f, x.clone(), OUTSIDE)
    assert type(error) is type(eager)
    assert str(error) == f"index 10 is out of bounds for dimension {dim} with size {x.shape[dim]}"
    found = rf"raised by {re.escape(operator)} in kernel fused_\w+, from .*test_index_errors\.py:\d+: .*lambda x, i.*"
    assert re.fullmatch(found, note_of(error)), note_of(error)


@pytest.mark.parametrize("unpool", [F.max_unpool1d, F.max_unpool2d, F.max_unpool3d], ids=lambda f: f.__name__)
def test_class_of_unpooling(unpool: Function) -> None:
    dims = int(unpool.__name__[-2])
    x, places = torch.ones(1, 1, *[2] * dims), torch.full((1, 1, *[2] * dims), 999)
    error, eager = (
        raised_by(f, x, places) for f in (compiled(lambda x, i: unpool(x, i, 2)), lambda x, i: unpool(x, i, 2))
    )
    assert type(error) is type(eager) is RuntimeError
    assert str(error) == f"index 999 is out of bounds for dimension 2 with size {4**dims}"


def test_each_of_several_in_one_kernel() -> None:
    """The note names one line, that of the index, not all lines of the kernel."""

    def f(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        first = y[i]  # the first
        second = torch.gather(y, 0, j)  # the second
        return (first + second) * 2

    function, x = compiled(f), torch.randn(5, 7)
    for i, j, operator, line, kind in (
        (OUTSIDE, over(OUTSIDE) % 5, "aten::index.Tensor", "the first", IndexError),
        (OUTSIDE % 5, over(OUTSIDE), "aten::gather", "the second", RuntimeError),
    ):
        error = raised_by(function, x, i, j)
        assert type(error) is kind
        assert re.fullmatch(rf"raised by {operator} in kernel \w+, from .*: .*# {line}", note_of(error))


def test_equal_layers_share_a_kernel() -> None:
    """The kernel knows no line, so each layer names its own."""

    def f(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        x = torch.linalg.matrix_exp(x.exp()[i] * 2)  # the first
        return torch.linalg.matrix_exp(x.exp()[j] * 2)  # the second

    fresh()
    function, x, inside = compiled(f), torch.zeros(4, 4), torch.arange(4)
    outside = inside + 1
    assert "# the first" in note_of(raised_by(function, x, outside, inside))
    assert "# the second" in note_of(raised_by(function, x, inside, outside))


@pytest.mark.parametrize(
    ("f", "operator"),
    [
        (lambda i: i // (i - 10) + 1, "aten::floor_divide"),
        (lambda i: i % (i - 10) + 1, "aten::remainder.Tensor"),
    ],
)
def test_division_by_zero(f: Callable[..., Any], operator: str) -> None:
    error, eager = raised_by(compiled(f), OUTSIDE), raised_by(f, OUTSIDE)
    assert type(error) is type(eager) and str(error) == str(eager)
    assert note_of(error).startswith(f"raised by {operator} in kernel ")


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x[:0][i],
        lambda x, i: torch.gather(x[:0], 0, over(i)),
        lambda x, i: F.embedding(i, x[:0]),
        lambda x, i: x[:0].index_select(0, i),
    ],
)
def test_empty_dimensions(f: Function) -> None:
    x = torch.randn(5, 7)
    error, eager = raised_by(compiled(f), x, OUTSIDE), raised_by(f, x, OUTSIDE)
    assert type(error) is type(eager)
    assert re.match(r"raised by aten::\w+(\.Tensor)? in a check of sizes, from .*lambda x, i", note_of(error))


def test_in_a_branch() -> None:
    """The step of the branch is named, not the step that runs it."""

    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        def otherwise(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return torch.gather(x.sin(), 0, i) * 2  # in the branch

        # torch keeps the lines of some bodies, not of all.
        return torch.cond(x.sum() > 0, lambda x, i: x.cos()[i[:, 0]] * 1, otherwise, (x, i))  # the call

    function = compiled(f)
    x, i = torch.ones(5, 7), over(OUTSIDE).contiguous()
    error = raised_by(function, -x, i)
    assert type(error) is RuntimeError
    assert re.fullmatch(r"raised by aten::gather in kernel \w+, from .*# (in the branch|the call)", note_of(error))
    error = raised_by(function, x, i)
    assert type(error) is IndexError
    assert "raised by aten::index.Tensor in kernel " in note_of(error) and "# the call" in note_of(error)


def test_side_by_side_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that share a parallel region keep their own lines."""

    def f(*tables: torch.Tensor) -> list[torch.Tensor]:
        *xs, i = tables
        return [torch.sort(x[i + 4])[0] if k == 3 else x.cos() for k, x in enumerate(xs)]

    xs = [torch.randn(3000 + k) for k in range(6)]
    error = raised_by(compiled(f), *xs, torch.tensor([1, 3001]))
    assert isinstance(error, IndexError) and "raised by aten::index.Tensor in kernel" in note_of(error)


def test_from_the_disk_cache(cache_dir: Any, tmp_path: Any) -> None:
    """A warm start names operator and line, and raises the same class."""
    file = tmp_path / "user.py"
    file.write_text("""
import torch
def f(x, i):
    return torch.gather(x.exp(), 0, i) + 1  # the user's line
try:
    torch.compile(f, backend="tile", options={"strict": True})(torch.ones(4), torch.tensor([7]))
except RuntimeError as error:
    print(type(error).__name__, error, error.__notes__)
""")
    runs = [run_python(f"import runpy; runpy.run_path({str(file)!r})") for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].startswith("RuntimeError index 7 is out of bounds for dimension 0 with size 4 ")
    assert "raised by aten::gather in kernel" in runs[0] and ":4: return torch.gather" in runs[0]
