"""Packages in C++, without Python: the same results as Python's, errors as statuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from tests.aot import c_interface, runner
from tests.aot.models import Branches, Counter, Equals, Mixed, Pointwise, export
from torch_tile import _C

pytestmark = pytest.mark.skipif(bool(runner.reason_to_skip()), reason=runner.reason_to_skip() or "-")
BETWEEN_LOOKS = 0.02
"""Seconds after which a loaded package sees that its file has changed."""
BATCH = torch.export.Dim("batch", min=2, max=64)


@pytest.fixture(scope="module")
def pointwise(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pointwise, str]:
    torch.manual_seed(0)
    model = Pointwise().eval()
    x, y = torch.randn(6, 24), torch.randn(6, 24)
    path = tmp_path_factory.mktemp("pointwise") / "m.tile"
    return model, torch_tile.aot.package(export(model, (x, y), {"x": {0: BATCH}, "y": {0: BATCH}}), path)


@torch.no_grad()
def test_without_libtorch(pointwise: tuple[Pointwise, str], tmp_path: Path) -> None:
    path = pointwise[1]
    for rows in (6, 64):
        x, y = torch.randn(rows, 24), torch.randn(rows, 24)
        found, uses_torch = runner.run(path, [x, y], tmp_path, has_torch=False)
        assert not uses_torch
        for one, expected in zip(found, torch_tile.aot.load(path)(x, y), strict=True):
            assert torch.equal(one, expected) and one.stride() == expected.stride()
    ldd = subprocess.run(["ldd", str(runner.PACKAGE / "libtorch_tile_runtime.so")], capture_output=True, text=True)
    assert "torch_cpu" not in ldd.stdout and "python" not in ldd.stdout


@torch.no_grad()
@pytest.mark.parametrize("how", ["python", "c", "c with LibTorch"])
def test_a_package_that_is_written_while_it_is_loaded(tmp_path: Path, how: str) -> None:
    """Constants are mapped: a call finds other ones, but for a package that is replaced by renaming."""
    torch.manual_seed(0)
    paths, expected, x = [], [], torch.randn(2, 64)
    for number in range(2):
        model = Weighted(64)
        paths.append(torch_tile.aot.package(export(model, (x,)), tmp_path / f"{number}.tile"))
        expected.append(model(x))

    def load() -> Any:
        if how == "python":
            return torch_tile.aot.load(tmp_path / "m.tile")
        loaded = c_interface.Model(str(tmp_path / "m.tile"), force_torch=how != "c")
        return lambda x: loaded(x)[0]

    path = tmp_path / "m.tile"
    shutil.copyfile(paths[0], path)
    model = load()
    torch.testing.assert_close(model(x), expected[0])
    os.utime(path, (1000, 1000))  # written again with the same bytes
    time.sleep(BETWEEN_LOOKS)
    torch.testing.assert_close(model(x), expected[0])
    replacement = tmp_path / "new"
    shutil.copyfile(paths[1], replacement)
    replacement.rename(path)
    time.sleep(BETWEEN_LOOKS)
    torch.testing.assert_close(model(x), expected[0])
    model = load()
    torch.testing.assert_close(model(x), expected[1])
    shutil.copyfile(paths[0], path)
    time.sleep(BETWEEN_LOOKS)
    for _ in range(2):
        with pytest.raises(
            Exception, match=r"m\.tile' was written after it was loaded: load it again, and replace pack"
        ):
            model(x)
    model = load()
    torch.testing.assert_close(model(x), expected[0])
    os.truncate(path, 100)
    time.sleep(BETWEEN_LOOKS)
    with pytest.raises(Exception, match=r"m\.tile' was cut short after it was loaded: replace packages by renaming"):
        model(x)


class Weighted(torch.nn.Module):
    """Its weight takes more than a page."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] * self.weight).sum(-1)


@torch.no_grad()
def test_a_large_call_on_the_threads_of_the_core(tmp_path: Path) -> None:
    model = Pointwise().eval()
    x, y = torch.randn(20000, 24), torch.randn(20000, 24)
    path = torch_tile.aot.package(export(model, (x, y)), tmp_path / "m.tile")
    found, _ = runner.run(path, [x, y], tmp_path, threads=4, has_torch=False)
    for one, expected in zip(found, torch_tile.aot.load(path)(x, y), strict=True):
        assert torch.equal(one, expected)


@torch.no_grad()
def test_state_of_the_core(tmp_path: Path) -> None:
    path = torch_tile.aot.package(export(Counter(), (torch.ones(2, 4),)), tmp_path / "m.tile")
    found, uses_torch = runner.run(path, [torch.ones(2, 4)], tmp_path, threads=4, has_torch=False)
    assert not uses_torch and found[0].tolist() == [4.0 * 81] * 4


@torch.no_grad()
def test_buffers_of_equal_bytes(tmp_path: Path) -> None:
    path = torch_tile.aot.package(export(Equals(), (torch.zeros(2, 4),)), tmp_path / "m.tile")
    found, uses_torch = runner.run(path, [torch.zeros(2, 4)], tmp_path, has_torch=False)
    assert not uses_torch and found[0].tolist() == torch_tile.aot.load(path)(torch.zeros(2, 4)).tolist()


@torch.no_grad()
@pytest.mark.parametrize("force_torch", [False, True])
def test_one_call_does_not_change_results_of_another(tmp_path: Path, force_torch: bool) -> None:
    class Kept(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x.sum(0))
            return self.total

    path = torch_tile.aot.package(export(Kept(), (torch.ones(2, 4),)), tmp_path / "m.tile")
    model = c_interface.Model(path, force_torch=force_torch)
    assert [model(torch.ones(2, 4))[0].tolist() for _ in range(2)] == [[2.0] * 4, [4.0] * 4]


@torch.no_grad()
def test_an_argument_as_result(tmp_path: Path) -> None:
    class Identity(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    x = torch.randn(3, 4)
    path = torch_tile.aot.package(export(Identity(), (x,)), tmp_path / "m.tile")
    found, uses_torch = runner.run(path, [x], tmp_path, has_torch=False)
    assert not uses_torch and torch.equal(found[0], x)


@torch.no_grad()
def test_with_libtorch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(8, 3)
    exported = export(Mixed(), (x, y.clone()), {"x": {0: BATCH}, "y": {0: BATCH}})
    path = torch_tile.aot.package(exported, tmp_path / "m.tile")
    for rows in (8, 33):
        x, y = torch.randn(rows, 16), torch.randn(rows, 3)
        found, uses_torch = runner.run(path, [x, y], tmp_path)
        expected = torch_tile.aot.load(path)(x, y)
        assert uses_torch and torch.equal(found[0], expected["scaled"]) and torch.equal(found[1], expected["sum"])
        assert found[2].item() == rows
    without = subprocess.run([str(runner.harness()), path, str(tmp_path)], env={}, capture_output=True, text=True)
    if without.returncode != 0:  # where torch does not lie beside the package
        assert "operators of PyTorch, or branches or loops, and the library that runs them cannot be" in without.stderr
        assert "LD_LIBRARY_PATH has to name the folder of LibTorch" in without.stderr


@torch.no_grad()
def test_control_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 8)
    model = Branches()
    exported = export(model, (x,), {"x": {0: BATCH}})
    path = torch_tile.aot.package(exported, tmp_path / "m.tile")
    for x in (torch.rand(4, 8), -torch.rand(7, 8)):
        found, uses_torch = runner.run(path, [x], tmp_path)
        assert uses_torch and torch.equal(found[0], torch_tile.aot.load(path)(x))
        torch.testing.assert_close(found[0], model(x))

    # A file that does not say that it needs LibTorch.
    describe = _C.describe_artifact
    monkeypatch.setattr(_C, "describe_artifact", lambda code: {**describe(code), "needs_torch": False})
    path = torch_tile.aot.package(exported, tmp_path / "n.tile")
    ran = subprocess.run([str(runner.harness()), path, str(tmp_path)], env={}, capture_output=True, text=True)
    assert ran.returncode == 1 and "the program has branches or loops, which run within LibTorch only" in ran.stderr


def test_what_is_refused(pointwise: tuple[Pointwise, str], tmp_path: Path) -> None:
    ran = subprocess.run([str(runner.harness()), "--errors", pointwise[1]], env={}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines() if ": " in line)
    assert said == {
        "rows": "1 argument `x`: size of dimension 0 expected 0 to 64, got 65",
        "unequal": "1 argument `y`: size of dimension 0 expected 6 as other sizes of the call are, got 7",
        "rank": "1 argument `x` expected 2 dimensions, got 1",
        "number": "1 expected 2 arguments, got 1",
        "dtype": "1 argument `x` expected float32, got float64",
        "negative": "1 argument `x` has a negative size or stride",
        "data": "1 argument `x` has no data",
        "file": f"2 cannot open package '{pointwise[1]}.not': No such file or directory",
        "options": "1 tile_load_options has 0 bytes, expected 32",
        "device": "1 device type expected 1 (CPU) or 2 (CUDA), got 7",
        "threads": "1 num_threads expected 0 to 1024, got 100000",
    }
    assert ran.stdout.splitlines()[-2:] == ["status 1", "input y 2 32 2 0 64"]


def test_damaged_files_in_cpp(pointwise: tuple[Pointwise, str], tmp_path: Path) -> None:
    good = Path(pointwise[1]).read_bytes()
    for number, (data, message) in enumerate([(good[:-9], "cut short"), (b"nothing", "no package of torch-tile")]):
        path = tmp_path / f"{number}.tile"
        path.write_bytes(data)
        ran = subprocess.run([str(runner.harness()), str(path), str(tmp_path)], env={}, capture_output=True, text=True)
        assert ran.returncode == 1 and message in ran.stderr


@torch.no_grad()
@pytest.mark.parametrize("calls_torch", [False, True])
def test_damaged_constants_in_cpp(calls_torch: bool, tmp_path: Path) -> None:
    """With and without LibTorch."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(64, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight if calls_torch else (x + self.weight).sin()

    model, path = Model(), tmp_path / "m.tile"
    torch_tile.aot.package(torch.export.export(model, (torch.randn(64, 64),)), path)
    data = bytearray(path.read_bytes())
    data[data.index(bytes(model.weight.view(torch.uint8)[0].tolist())) + 77] ^= 16
    path.write_bytes(data)
    command = [str(runner.harness()), str(path), str(tmp_path)]
    ran = subprocess.run(command, env=runner.environment(), capture_output=True, text=True)
    assert ran.returncode == 1
    assert "the package is damaged: constant 'weight' does not have the checksum that the index names" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["roberta", "mamba", "mixtral", "resnet"])
def test_architectures(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.aot.architectures import check
    from tests.models.architectures import BY_NAME

    for is_dynamic in (False, True):
        row = check(BY_NAME[name], is_dynamic, tmp_path)
        assert row.get("same") and row["difference"] < 1e-4, row


@pytest.mark.slow
def test_the_example_serves_a_bert(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = runner.ROOT / "examples" / "cpp_serving"
    subprocess.run(
        [sys.executable, str(folder / "export.py"), str(tmp_path), "--layers", "2"], check=True, cwd=runner.ROOT
    )
    prefix = f"-DCMAKE_PREFIX_PATH={torch_tile.cmake_prefix_path()}"
    subprocess.run(["cmake", "-S", str(folder), "-B", str(tmp_path / "build"), prefix], check=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True)
    ran = subprocess.run(
        [str(tmp_path / "build" / "serve"), str(tmp_path), "4", "4"],
        env=runner.environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "with LibTorch" in ran.stdout and "largest difference from Python" in ran.stdout


@torch.no_grad()
def test_arguments_that_overlap_under_libtorch(tmp_path: Path) -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return y * 2

    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    z = torch.randn(7, 4)
    for model, is_refused in ((Writes(), True), (Reads(), False)):
        path = torch_tile.aot.package(export(model, (torch.ones(6, 4), torch.ones(6, 4))), tmp_path / "m.tile")
        loaded = c_interface.Model(path, force_torch=True)
        for x, y in ((z[1:], z[1:]), (z[1:], z[:-1])):
            if is_refused:
                with pytest.raises(RuntimeError, match="1 two inputs share memory"):
                    loaded(x, y)
            else:
                torch.testing.assert_close(loaded(x, y)[0], x + y)
