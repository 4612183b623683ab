"""What packaged models say of a step that fails: the operator and the line of the program that was exported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import torch_tile
from tests.aot import c_interface, runner
from tests.aot.models import export
from tests.compiling import run_python
from torch_tile.package_file import VERSION, Writer

OUTSIDE = torch.tensor([1, 10])


class Gathers(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        first = y[i]  # the first
        second = torch.gather(y, 0, j)  # the second
        return (first + second) * 2


class Divides(torch.nn.Module):
    def forward(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return i // j + 1  # the division


class Factors(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x * 2).exp()  # the factor


def over(i: torch.Tensor) -> torch.Tensor:
    return i[:, None].expand(2, 7).contiguous()


X = torch.randn(5, 7)
NUMBERS = torch.tensor([3, 4])
# Arguments that the model is exported with, others, the exception, and what is said of it.
CASES: list[tuple[type[torch.nn.Module], tuple[Any, ...], tuple[Any, ...], type[Exception], str, str]] = [
    (
        Gathers, (X, OUTSIDE % 5, over(OUTSIDE % 5)), (X, OUTSIDE, over(OUTSIDE % 5)), IndexError,
        "index 10 is out of bounds for dimension 0 with size 5",
        r"raised by aten::index\.Tensor in kernel \w+, from .*test_failures\.py:\d+: first = y\[i\]  # the first",
    ),
    (
        Gathers, (X, OUTSIDE % 5, over(OUTSIDE % 5)), (X, OUTSIDE % 5, over(OUTSIDE)), RuntimeError,
        "index 10 is out of bounds for dimension 0 with size 5",
        r"raised by aten::gather in kernel \w+, from .*test_failures\.py:\d+: second = .*# the second",
    ),
    (
        Divides, (NUMBERS, NUMBERS), (NUMBERS, NUMBERS - 3), RuntimeError, "ZeroDivisionError",
        r"raised by aten::floor_divide in kernel \w+, from .*test_failures\.py:\d+: return i // j \+ 1  # the division",
    ),
    (
        Factors, (torch.eye(3),), (-torch.eye(3),), torch.linalg.LinAlgError,
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite",
        r"raised by aten::\S+( in .*)?, from .*test_failures\.py:\d+: return torch\.linalg\.cholesky.*# the factor",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[type[torch.nn.Module], tuple[Any, ...]], str]:
    made: dict[type[torch.nn.Module], str] = {}

    def make(model: type[torch.nn.Module], inputs: tuple[Any, ...]) -> str:
        if model not in made:
            path = tmp_path_factory.mktemp("failures") / "m.tile"
            made[model] = torch_tile.aot.package(export(model(), inputs), path)
        return made[model]

    return make


@pytest.mark.parametrize(("model", "good", "bad", "kind", "text", "note"), CASES)
def test_in_python(
    package: Any, model: type[torch.nn.Module], good: Any, bad: Any, kind: type[Exception], text: str, note: str
) -> None:
    loaded = torch_tile.aot.load(package(model, good))
    with pytest.raises(kind) as error:
        loaded(*bad)
    assert type(error.value) is kind and text in str(error.value)
    (found,) = getattr(error.value, "__notes__", ("",))
    assert re.fullmatch(note, found), found
    loaded(*good)


@pytest.mark.skipif(bool(runner.reason_to_skip()), reason=runner.reason_to_skip() or "-")
@pytest.mark.parametrize("force_torch", [False, True])
@pytest.mark.parametrize(("model", "good", "bad", "kind", "text", "note"), CASES)
def test_in_c(
    package: Any,
    model: type[torch.nn.Module],
    good: Any,
    bad: Any,
    kind: type[Exception],
    text: str,
    note: str,
    force_torch: bool,
) -> None:
    """Without LibTorch and with it."""
    loaded = c_interface.Model(package(model, good), force_torch=force_torch)
    with pytest.raises(RuntimeError) as error:
        loaded(*bad)
    said = str(error.value)
    assert text in said and re.fullmatch(note, said.splitlines()[-1]), said
    loaded(*good)


def test_where_the_program_is_not(tmp_path: Path) -> None:
    """The file that was exported need not be where the model is loaded; what it said is in the package."""
    module = tmp_path / "module.py"
    module.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x, i):\n        return x.exp()[i] + 1\n"
    )
    run_python(f"""
import sys, torch, torch_tile
sys.path.insert(0, {str(tmp_path)!r})
from module import Model
exported = torch.export.export(Model(), (torch.ones(5), torch.tensor([1, 2])))
torch_tile.aot.package(exported, {str(tmp_path / "m.tile")!r})
""")
    module.unlink()
    with pytest.raises(IndexError) as error:
        torch_tile.aot.load(tmp_path / "m.tile")(torch.ones(5), OUTSIDE)
    (note,) = error.value.__notes__
    assert note.endswith(f"from {module}:6: return x.exp()[i] + 1")


def test_damaged_lines_hide_no_error(package: Any, tmp_path: Path) -> None:
    """Loading does not read them."""
    good = (NUMBERS, NUMBERS)
    data = Path(package(Divides, good)).read_bytes()
    path = tmp_path / "m.tile"
    path.write_bytes(data.replace(b"aten::floor_divide", b"aten::floor_dividf"))
    with pytest.raises(RuntimeError) as error:
        torch_tile.aot.load(path)(NUMBERS, NUMBERS - 3)
    assert str(error.value) == "ZeroDivisionError"
    assert re.fullmatch(r"raised by kernel \w+", error.value.__notes__[0])


def test_lines_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any bytes in their place, with the right checksum."""
    places, written, sources = list[tuple[int, int]](), b"", Writer.sources

    def spy(self: Writer, lines: Any) -> int:
        number = self.blob(written) if written else sources(self, lines)
        places.append(self._blobs[number][:2])
        return number

    monkeypatch.setattr(Writer, "sources", spy)
    exported, random = export(Divides(), (NUMBERS, NUMBERS)), Random(0)
    path = tmp_path / "m.tile"
    torch_tile.aot.package(exported, path)
    offset, size = places[0]
    right = path.read_bytes()[offset : offset + size]
    assert b"aten::floor_divide" in right
    for trial in range(12):
        changed = bytearray(right[: random.randrange(size)] if trial % 3 == 0 else right)
        for _ in range(trial % 3 * 3):
            changed[random.randrange(size)] = random.randrange(256)
        written = bytes(changed) or b"\xff"
        torch_tile.aot.package(exported, path)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            torch_tile.aot.load(path)(NUMBERS, NUMBERS - 3)
        if not runner.reason_to_skip():
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                c_interface.Model(str(path))(NUMBERS, NUMBERS - 3)


def test_packages_before_lines_are_read(package: Any, tmp_path: Path) -> None:
    """Format 1 had none."""
    from tests.aot.test_package import changed

    good = (NUMBERS, NUMBERS)
    data = Path(package(Divides, good)).read_bytes()
    offset = int.from_bytes(data[24:32], "little")
    # A variant ends with whether there are lines, and the number of their blob; last come arguments that need strides.
    assert VERSION == 3 and data[-3] == 1 and data[-1] == 0
    path = tmp_path / "m.tile"
    path.write_bytes(changed(data, version=1, index=data[offset:-3]))
    loaded = torch_tile.aot.load(path)
    assert torch.equal(loaded(*good), NUMBERS // NUMBERS + 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        loaded(NUMBERS, NUMBERS - 3)
