"""What packages refuse, and what they say: targets, options, places of files, devices, arguments."""

from __future__ import annotations

import enum
import errno
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch.autograd import forward_ad

import torch_tile
from tests.aot.models import Tied, export
from torch_tile.aot import loader
from torch_tile.errors import OptionError, UnsupportedError
from torch_tile.package_file import Writer

X = torch.randn(3, 24)


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    return export(Doubled(), (X,))


@pytest.fixture(scope="module")
def path(exported: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> str:
    return torch_tile.aot.package(exported, tmp_path_factory.mktemp("päckage of x") / "m.tile")


def test_targets(exported: torch.export.ExportedProgram, tmp_path: Path) -> None:
    targets: Any
    for targets, error, message in (
        ("foo", OptionError, "unknown target 'foo'; known targets: host, x86-64, .*, sm_80, .*, sm_90, sm_90a, sm_100"),
        ("sm_70", OptionError, "unknown target 'sm_70'; known targets: host"),
        ("sm_80a", OptionError, r"unknown target 'sm_80a' \(the nearest: sm_80\)"),
        ("SM_90A", OptionError, r"unknown target 'SM_90A' \(the nearest: sm_90a\)"),
        (["host", "x86-64-v5"], OptionError, r"unknown target 'x86-64-v5' \(the nearest: x86-64-v4\)"),
        ([], OptionError, "targets expected at least one, got none"),
        (None, TypeError, "targets expected a name or a list of names, got None"),
        (["host", 3], TypeError, r"targets expected a name or a list of names, got \['host', 3\]"),
    ):
        with pytest.raises(error, match=message):
            torch_tile.aot.package(exported, tmp_path / "m.tile", targets=targets)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deterministic", True),
        ("nan_asserts", True),
        ("debug", True),
        ("trace.enabled", True),
        ("poison", True),
        ("max_autotune", True),
        ("matmul_library", "aten"),
        ("max_autotune_gemm_backends", "ATEN"),
        ("interpret", True),
        ("only_first_graphs", 3),
    ],
)
def test_options_that_are_refused(
    exported: torch.export.ExportedProgram, tmp_path: Path, name: str, value: Any
) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' is not obeyed by package: "):
        torch_tile.aot.package(exported, tmp_path / "m.tile", options={name: value})
    assert not any(tmp_path.iterdir())


def test_options_without_effect_are_said(
    exported: torch.export.ExportedProgram, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"force_compile": True, "deterministic": False, "triton.cudagraphs": False, "max_autotune": False}
    with caplog.at_level(logging.WARNING, "torch_tile"):
        torch_tile.aot.package(exported, tmp_path / "m.tile", options=options)
    assert [r.getMessage() for r in caplog.records] == [
        "option 'force_compile' has no effect on package: the model is compiled anew, without a cache"
    ]


def test_an_operator_called_through_python_is_named(tmp_path: Path) -> None:
    class Count(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.histc(x, 4, 0, x.shape[0] * 0.5)  # counted

    sizes = {"x": {0: torch.export.Dim("n", min=2, max=64)}}
    exported = torch.export.export(Count(), (torch.randn(6),), dynamic_shapes=sizes)
    message = r"through Python: aten::histc: no kernel for this case: .*test_package_errors.py:\d+: return .*# counted"
    with pytest.raises(UnsupportedError, match=message):
        torch_tile.aot.package(exported, tmp_path / "m.tile")


def test_places(exported: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder to write the package into: .*missing"):
        torch_tile.aot.package(exported, tmp_path / "missing" / "m.tile")
    for folder in (tmp_path, ""):
        with pytest.raises(IsADirectoryError, match="package writes a file, and this is a folder"):
            torch_tile.aot.package(exported, folder)
    with pytest.raises(ValueError, match="has a null character"):
        torch_tile.aot.load("m.tile\0")
    not_a_path: Any = 5
    for function in (
        torch_tile.aot.load,
        torch_tile.aot.verify,
        lambda path: torch_tile.aot.package(exported, path),
    ):
        with pytest.raises(TypeError, match=r"^path expected a str.*, got int"):
            function(not_a_path)
    monkeypatch.chdir(tmp_path)
    torch_tile.aot.package(exported, "m.tile")
    assert torch.equal(torch_tile.aot.load(os.fsencode("m.tile"))(X), X * 2 + 1)


def test_errors_name_the_file_that_was_asked_for(
    exported: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the one beside it that is written first."""
    if sys.platform == "linux":
        with pytest.raises(FileNotFoundError, match=r"cannot write the package: .*: '/proc/x\.tile'$"):
            torch_tile.aot.package(exported, "/proc/x.tile")

    def refuse(source: str, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source, None, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError, match=r"cannot write the package: [^']*: '[^']*/m\.tile'$"):
        torch_tile.aot.package(exported, tmp_path / "m.tile")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_devices(exported: torch.export.ExportedProgram, path: str, tmp_path: Path) -> None:
    why = "this torch is built without CUDA" if torch.version.cuda is None else "no device is there"
    gpu = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=["sm_80", "sm_90a"])
    device: Any
    for device, error, message in (
        ("cuda", UnsupportedError, f"device 'cuda' cannot be used: {why}"),
        (torch.device("cuda:3"), UnsupportedError, f"device 'cuda:3' cannot be used: {why}"),
        ("mps", ValueError, "device expected 'cpu' or a CUDA device, got 'mps'"),
        ("meta", ValueError, "device expected 'cpu' or a CUDA device, got 'meta'"),
        ("gpu", ValueError, "device expected 'cpu' or a CUDA device, got 'gpu'"),
        (0, ValueError, "device expected 'cpu' or a CUDA device, got '0'"),
    ):
        for each in (gpu, path):
            with pytest.raises(error, match=message):
                torch_tile.aot.load(each, device=device)
    with pytest.raises(UnsupportedError, match=r"no program for this processor \(.*\); it has sm_80, sm_90a: package"):
        torch_tile.aot.load(gpu)


@torch.no_grad()
def test_a_program_that_computes_nothing(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    loaded = torch_tile.aot.load(
        torch_tile.aot.package(export(Identity(), (X,), {"x": {0: batch}}), tmp_path / "m.tile")
    )
    x = torch.randn(7, 24)
    assert loaded(x).data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match="size of dimension 1 expected 24, got 3"):
        loaded(torch.randn(7, 3))


def test_operators_defined_in_python(tmp_path: Path) -> None:
    with torch.library._scoped_library("tile_packaged", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", torch.empty_like, "Meta")

        class Twice(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> Any:
                return torch.ops.tile_packaged.twice(x) + 1

        exported = torch.export.export(Twice(), (X,))
        with pytest.raises(UnsupportedError, match="tile_packaged::twice is defined in Python, which a program"):
            torch_tile.aot.package(exported, tmp_path / "m.tile")


def test_tied_buffers_that_are_written(tmp_path: Path) -> None:
    exported = torch.export.export(Tied(), (torch.ones(2, 4),))
    with pytest.raises(UnsupportedError, match="one, other share memory, and torch does not take a program apart"):
        torch_tile.aot.package(exported, tmp_path / "m.tile")


def test_one_argument_twice_at_export(tmp_path: Path) -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            y.add_(1)
            return x * 2

    z = torch.ones(3)
    with pytest.raises(UnsupportedError, match=r"x, y share memory.*export the model with a tensor for each argument"):
        torch_tile.aot.package(torch.export.export(Writes(), (z, z)), tmp_path / "m.tile")


def test_arguments(path: str) -> None:
    loaded = torch_tile.aot.load(path)
    assert repr(loaded) == f"LoadedModel({path!r}, target 'host', arguments: x)"
    x: Any
    for x, error, message in (
        (X.clone().requires_grad_(), RuntimeError, "argument `x` needs a gradient, which a packaged model does not"),
        (X.to_sparse(), RuntimeError, r"argument `x` is a sparse tensor; .*: call .to_dense\(\)"),
        (torch.nested.nested_tensor([X]), RuntimeError, "argument `x` is a nested tensor"),
        (torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), RuntimeError, "argument `x` is a quantized tensor"),
        (X.to("meta"), RuntimeError, "argument `x` is on the meta device"),
        ([X, X], TypeError, "argument `x`: expected a tensor of float32, got list$"),
        (3, TypeError, "argument `x`: expected a tensor of float32, got int$"),
    ):
        with pytest.raises(error, match=message):
            loaded(x)
    with torch.no_grad():
        assert torch.equal(loaded(X.clone().requires_grad_()), X * 2 + 1)
        with pytest.raises(RuntimeError, match="argument `x` has a tangent, which a packaged"):
            torch.func.jvp(loaded, (X,), (X,))
        with forward_ad.dual_level(), pytest.raises(RuntimeError, match="argument `x` has a tangent"):
            loaded(forward_ad.make_dual(X, X))
    with pytest.raises(TypeError, match=r"expected 1 argument by position, got 0; unexpected keyword arguments: x$"):
        loaded(x=X)


class Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: Any, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y


class Colour(enum.Enum):
    RED = 1


NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (5, {"6": 6, "5.0": 5.0, "'5'": "5", "None": None, "an int of 71 bits": 2**70}),
        (1, {"True": True, "1.0": 1.0, "Tensor": torch.tensor(1.0)}),
        (2, {"Tensor": torch.tensor([2, 2])}),
        (2.5, {"2": 2, "'2.5'": "2.5", "nan": NAN}),
        (0.0, {"-0.0": -0.0, "0": 0, "False": False}),
        (NAN, {"0.0": 0.0, "None": None, "Tensor": torch.tensor(NAN)}),
        (True, {"1": 1, "1.0": 1.0, "False": False}),
        ("mean", {"'sum'": "sum", "None": None, f"'{'m' * 119} ...": "m" * 999}),
        (None, {"0": 0, "False": False, "Tensor": torch.tensor(0)}),
    ],
)
def test_fixed_arguments(value: Any, others: dict[str, Any], tmp_path: Path) -> None:
    torch_tile.aot.package(torch.export.export(Fixed(), (X, value, X)), tmp_path / "m.tile")
    loaded = torch_tile.aot.load(tmp_path / "m.tile")
    same = float(str(value)) if isinstance(value, float) else value  # another NaN
    assert torch.equal(loaded(X, same, X), X * 2 + X)
    for shown, other in others.items():
        with pytest.raises(ValueError) as error:
            loaded(X, other, X)
        assert str(error.value) == f"argument `n` was {value!r} when the model was exported, got {shown}"
    with pytest.raises(TypeError, match=r"argument `n` was .* when the model was exported, got list"):
        loaded(X, [value], X)


def test_subclasses_of_fixed_arguments(tmp_path: Path) -> None:
    """As torch.export takes them: members of IntEnum are ints, others are refused."""

    class Number(enum.IntEnum):
        ONE = 1

    torch_tile.aot.package(torch.export.export(Fixed(), (X, Number.ONE, X)), tmp_path / "m.tile")
    loaded = torch_tile.aot.load(tmp_path / "m.tile")
    for value in (Number.ONE, 1):
        assert torch.equal(loaded(X, value, X), X * 2 + X)
    with pytest.raises(UnsupportedError, match="argument `n` is of type Colour; tensors, numbers, strings and None"):
        torch_tile.aot.package(torch.export.export(Fixed(), (X, Colour.RED, X)), tmp_path / "m.tile")


def test_packages_before_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the names of tensors and integers alone."""
    finish = Writer.finish

    def without_names(self: Writer, producer: str, metadata: str, *rest: Any) -> None:
        kept = {key: value for key, value in json.loads(metadata).items() if not key.endswith("_names")}
        finish(self, producer, json.dumps(kept), *rest)

    monkeypatch.setattr(Writer, "finish", without_names)
    torch_tile.aot.package(torch.export.export(Fixed(), (X, [5], X)), tmp_path / "m.tile")
    loaded = torch_tile.aot.load(tmp_path / "m.tile")
    assert torch.equal(loaded(X, [5], X), X * 2 + X)
    with pytest.raises(ValueError, match="argument number 1 was 5 when the model was exported, got 6"):
        loaded(X, [6], X)
    with pytest.raises(TypeError, match=r"argument number 1: expected \[\*\], got int"):
        loaded(X, 5, X)


def test_integer_arguments(tmp_path: Path) -> None:
    class Times(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

    sizes = {"x": None, "n": torch.export.Dim.DYNAMIC}
    torch_tile.aot.package(torch.export.export(Times(), (X, 5), dynamic_shapes=sizes), tmp_path / "m.tile")
    loaded = torch_tile.aot.load(tmp_path / "m.tile")
    assert torch.equal(loaded(X, 7), X * 7)
    n: Any
    for n, error, message in (
        (2**70, ValueError, f"argument `n` expected 0 to {2**63 - 1}, got an int of 71 bits"),
        (-(2**99999), ValueError, f"argument `n` expected 0 to {2**63 - 1}, got an int of 100000 bits"),
        (-3, ValueError, "argument `n` expected at least 0, got -3"),
        (5.0, TypeError, "argument `n`: expected an int, got float"),
        ("5", TypeError, "argument `n`: expected an int, got str"),
        (True, TypeError, "argument `n`: expected an int, got bool"),
        (torch.tensor(5), TypeError, "argument `n`: expected an int, got Tensor"),
        ([5], TypeError, "argument `n`: expected an int, got list"),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            loaded(X, n)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (torch_tile.aot.load, torch_tile.aot.verify):
        with pytest.raises(torch_tile.PackageError, match="no regular file"):
            read(pipe)
    with pytest.raises(torch_tile.ArtifactError, match="neither a file nor a folder"):
        torch_tile.CompiledArtifact.load(path=pipe)


def test_the_guide_quotes_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "aot.md").read_text()
    (quoted,) = re.findall(r"^ValueError: (argument `input`: .*)$", guide, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    exec(guide.partition("```python\n")[2].partition("```")[0].replace('["x86-64-v3", "x86-64-v4"]', '"host"'), {})
    with pytest.raises(ValueError) as error:
        torch_tile.aot.load("model.tile")(torch.randn(200, 64))
    assert str(error.value) == quoted


_WITHOUT_CHILDREN = '[1, {"type": "builtins.tuple", "context": "null"}]'


def _without(name: str) -> Any:
    return lambda known: {key: value for key, value in known.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda known: 3, "expected a JSON object, got int"),
        (_without("in_spec"), "'in_spec' is missing"),
        (_without("literals"), "'literals' is missing"),
        (lambda known: {**known, "in_spec": {"text": _WITHOUT_CHILDREN, "named": []}}, "'children_spec' is missing"),
        (lambda known: {**known, "in_spec": {"text": "[1,", "named": []}}, "Expecting value"),
        (lambda known: {**known, "in_spec": known["out_spec"]}, "expected a structure of positional and named"),
        (lambda known: {**known, "literals": {"0": 5}}, "expected a structure of 2 arguments"),
        (lambda known: {**known, "literals": {"7": 5}}, "expected places of literals among the arguments"),
        (lambda known: {**known, "outputs": []}, "expected a structure of 0 results"),
        (lambda known: {**known, "outputs": [["program", "0"]]}, "expected results of the program, and literals"),
        (lambda known: {**known, "steps": [[9, 0, 2, 0]]}, "expected steps of sizes"),
        (lambda known: {**known, "steps": [[0, 0, 0, 0]]}, "expected steps of sizes"),
        (lambda known: {**known, "argument_names": 3}, "object is not iterable"),
    ],
)  # fmt: skip
def test_a_description_of_arguments_that_is_damaged(
    change: Any, message: str, exported: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Writer.finish

    def changed(self: Writer, producer: str, metadata: str, *rest: Any) -> None:
        finish(self, producer, json.dumps(change(json.loads(metadata))), *rest)

    monkeypatch.setattr(Writer, "finish", changed)
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    with pytest.raises(torch_tile.PackageError) as error:
        torch_tile.aot.load(tmp_path / "m.tile")
    assert str(error.value).startswith(f"load: {str(tmp_path / 'm.tile')!r}: the package is damaged: ")
    assert message in str(error.value)


def test_a_text_that_is_no_json(
    exported: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Writer.finish
    monkeypatch.setattr(
        Writer, "finish", lambda self, producer, metadata, *rest: finish(self, producer, metadata[:-9], *rest)
    )
    torch_tile.aot.package(exported, tmp_path / "m.tile")
    with pytest.raises(torch_tile.PackageError, match="is damaged: its description of arguments: "):
        torch_tile.aot.load(tmp_path / "m.tile")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError(""), "the package is damaged: a program of it cannot be loaded"),
        (RuntimeError("kernel 'k' for cp cannot run on device cpu"), "damaged: kernel 'k' for cp cannot run on device"),
        (UnicodeDecodeError("utf-8", b"kernel '\xe3'", 8, 9, "invalid"), "a text of the package is no UTF-8: kernel '"),
    ],
)
def test_programs_that_the_extension_refuses(error: Exception, message: str, path: str) -> None:
    class File:
        metadata, inputs = torch_tile._C.open_package(path).metadata, torch_tile._C.open_package(path).inputs

        def choose(self, capability: int) -> int:
            return 0

        def load(self, *_: Any) -> Any:
            raise error

    refused = pytest.raises(torch_tile.PackageError, match=message)
    with mock.patch.object(loader, "_open", lambda path: File()), refused:
        torch_tile.aot.load(path)


def test_an_operator_that_nobody_has_defined_is_no_damage(path: str) -> None:
    error = RuntimeError("operator 'a::b' is not registered; import the library that defines it")
    passed_on = pytest.raises(RuntimeError, match="is not registered")
    with mock.patch.object(loader.LoadedModel, "__init__", side_effect=error), passed_on:
        torch_tile.aot.load(path)
