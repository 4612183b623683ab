"""Packages in Python: what is exported is what runs, and what does not fit is said."""

from __future__ import annotations

import copy
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from tests.aot.models import Counter, Equals, Mixed, Pointwise, export
from tests.compiling import run_python
from tests.runtime.artifact_builder import uint
from torch_tile import _C
from torch_tile.errors import OptionError, PackageError, UnsupportedError
from torch_tile.package_file import HEADER_BYTES, VERSION, Writer, header

BATCH = torch.export.Dim("batch", min=2, max=64)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mixed, Path]:
    torch.manual_seed(0)
    model = Mixed().eval()
    path = tmp_path_factory.mktemp("mixed") / "model.tile"
    exported = export(copy.deepcopy(model), (torch.randn(8, 16), torch.randn(8, 3)), {"x": {0: BATCH}, "y": {0: BATCH}})
    targets = ["x86-64-v2", "x86-64-v3", "host"] if _C.processor_architecture() == "x86_64" else ["host"]
    assert torch_tile.aot.package(exported, path, targets=targets) == str(path)
    return model, path


@torch.no_grad()
def test_results_sizes_and_state(mixed: tuple[Mixed, Path]) -> None:
    model, path = mixed
    model = copy.deepcopy(model)
    loaded = torch_tile.aot.load(path)
    assert loaded.target == "host"
    for rows in (8, 2, 64, 33):
        x, y = torch.randn(rows, 16), torch.randn(rows, 3)
        other = y.clone()
        expected, found = model(x, y), loaded(x, other)
        assert found["rows"] == rows and found["none"] is None
        torch.testing.assert_close(found["scaled"], expected["scaled"])
        assert torch.equal(found["sum"], expected["sum"]) and torch.equal(other, y)
    assert loaded.constants()["count"].item() == 4
    # The file is as it was: another load begins again.
    assert torch_tile.aot.load(path).constants()["count"].item() == 0


@torch.no_grad()
def test_wrong_calls_are_named(mixed: tuple[Mixed, Path], tmp_path: Path) -> None:
    loaded = torch_tile.aot.load(mixed[1])
    x, y = torch.randn(8, 16), torch.randn(8, 3)
    for args, kwargs, text in (
        ((x,), {}, "expected 2 arguments, got 1"),
        ((x, y, y), {}, "expected 2 arguments, got 3"),
        ((x, None), {}, "argument `y`: expected a tensor of float32, got None"),
        ((x, [y, y]), {}, "argument `y`: expected a tensor of float32, got list"),
        ((x, "y"), {}, "argument `y`: expected a tensor of .*, got str"),
        ((x, y), {"scale": y}, "expected keyword arguments none, got scale"),
    ):
        with pytest.raises(TypeError, match=text):
            loaded(*args, **kwargs)

    path = tmp_path / "model.tile"
    model: Any = Pointwise()
    with pytest.raises(TypeError, match=r"expected an ExportedProgram, got Pointwise; call torch.export.export"):
        torch_tile.aot.package(model, path)
    exported = export(Pointwise(), (torch.randn(2, 24), torch.randn(2, 24)))
    for name, value in (("post_grad_pass", lambda graph: None), ("target", "host"), ("triton.cudagraphs", True)):
        with pytest.raises(OptionError, match=f"option '{name}' is not obeyed by package"):
            torch_tile.aot.package(exported, path, options={name: value})
    torch_tile.aot.package(exported, path, targets="host")
    assert torch_tile.aot.load(path).target == "host"


@torch.no_grad()
def test_every_target_of_this_machine(mixed: tuple[Mixed, Path]) -> None:
    model, path = mixed
    file = _C.open_package(str(path))
    x, y = torch.randn(5, 16), torch.randn(5, 3)
    for number, variant in enumerate(file.variants):
        # A file of its own for each: buffers are written where the file is mapped.
        found = _C.open_package(str(path)).load(number, "cpu").run([x, y.clone()])
        torch.testing.assert_close(found[0], copy.deepcopy(model)(x, y.clone())["scaled"])
        assert variant["needs_torch"]
    assert file.inputs == [("x", "float32", [(0, 64), (16, 16)]), ("y", "float32", [(0, 64), (3, 3)])]
    # Two names of one matrix are one blob; all constants are there once for three targets.
    blobs = [row[4] for row in file.constants]
    assert len(set(blobs)) == len(blobs) and path.stat().st_size < 200_000
    torch_tile.aot.verify(path)


@torch.no_grad()
def test_arguments_that_do_not_fit(mixed: tuple[Mixed, Path]) -> None:
    loaded = torch_tile.aot.load(mixed[1])
    x, y = torch.randn(8, 16), torch.randn(8, 3)
    for args, message in [
        ((torch.randn(65, 16), torch.randn(65, 3)), r"`x`: size of dimension 0 expected 0 to 64, got 65"),
        ((torch.randn(8, 17), y), r"`x`: size of dimension 1 expected 16, got 17"),
        ((x, torch.randn(7, 3)), r"`y`: size of dimension 0 expected 8 as other sizes of the call are, got 7"),
        ((x.double(), y), r"`x` expected float32, got float64"),
        ((x[0], y), r"`x` expected 2 dimensions, got 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            loaded(*args)
    # Other strides are copied where nothing is written, and refused by name where something is.
    with pytest.raises(RuntimeError, match="`x` expected float32"):
        loaded(torch.randn(16, 8).t(), y)


@torch.no_grad()
def test_without_library_calls(tmp_path: Path) -> None:
    model = Pointwise().eval()
    x, y = torch.randn(6, 24), torch.randn(6, 24)
    path = torch_tile.aot.package(export(model, (x, y), {"x": {0: BATCH}, "y": {0: BATCH}}), tmp_path / "m.tile")
    assert not _C.open_package(path).variants[0]["needs_torch"]
    loaded = torch_tile.aot.load(path)
    for args in ((x, y), (torch.randn(24, 9).t(), torch.randn(18, 24)[::2])):
        torch.testing.assert_close(loaded(*args), model(*args))


@torch.no_grad()
@pytest.mark.parametrize("freezing", [False, True])
def test_freezing_and_state(tmp_path: Path, freezing: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
    model[1].running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 16, 16)
    path = torch_tile.aot.package(
        export(model, (x,)), tmp_path / "m.tile", targets=["host"], options={"freezing": freezing}
    )
    torch.testing.assert_close(torch_tile.aot.load(path)(x), model(x), rtol=1e-4, atol=1e-5)
    names = [row[0] for row in _C.open_package(path).constants]
    assert ("1.running_var" in names) is not freezing
    batch = {"input": {0: BATCH}}
    path = torch_tile.aot.package(export(model, (x,), batch), tmp_path / "d.tile", options={"freezing": freezing})
    loaded = torch_tile.aot.load(path)
    for rows in (2, 5):
        x = torch.randn(rows, 3, 16, 16)
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-4, atol=1e-5)
    counter = Counter()
    path = torch_tile.aot.package(export(counter, (torch.ones(2, 4),)), tmp_path / "c.tile")
    loaded = torch_tile.aot.load(path)
    assert [loaded(torch.ones(2, 4))[0].item() for _ in range(3)] == [4, 8, 12]


def test_gpu_targets_without_a_gpu(tmp_path: Path) -> None:
    x, y = torch.randn(6, 24), torch.randn(6, 24)
    exported = export(Pointwise(), (x, y))
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=["host", "sm_80", "sm_90a"])
    file = _C.open_package(path)
    assert [variant["target"] for variant in file.variants] == ["host", "sm_80", "sm_90a"]
    assert [file.choose(capability) for capability in (0, 80, 86, 90)] == [0, 1, 1, 2]
    with pytest.raises(
        UnsupportedError, match=r"capability 12.0; it has host, sm_80, sm_90a: package the model for it"
    ):
        file.choose(120)
    assert b".target sm_80" in Path(path).read_bytes()
    torch.testing.assert_close(torch_tile.aot.load(path)(x, y), Pointwise.forward(exported.module(), x, y))  # type: ignore[arg-type]


def test_what_cannot_be_packaged(tmp_path: Path) -> None:
    exported = export(Pointwise(), (torch.randn(6, 24), torch.randn(6, 24)))
    for targets, message in [
        (["x86-64-v5"], "unknown target 'x86-64-v5' .*; known targets: host"),
        ([], "at least one"),
    ]:
        with pytest.raises(OptionError, match=message):
            torch_tile.aot.package(exported, tmp_path / "m.tile", targets=targets)
    assert list(tmp_path.iterdir()) == []


# ===- files that are not what they should be


def changed(data: bytes, version: int = VERSION, index: bytes | None = None) -> bytes:
    """The package with another index, and checksums that fit it."""
    (offset,) = struct.unpack_from("<Q", data, 24)
    index = data[offset:] if index is None else index
    return header(offset, index, version) + data[HEADER_BYTES:offset] + index


def test_damaged_files(mixed: tuple[Mixed, Path], tmp_path: Path) -> None:
    good, path = mixed[1].read_bytes(), tmp_path / "bad.tile"
    (offset,) = struct.unpack_from("<Q", good, 24)
    middle = good[:offset] + bytes([good[offset] ^ 1]) + good[offset + 1 :]
    for data, message in [
        (b"", "empty"),
        (b"PK\3\4" + bytes(100), "no package of torch-tile"),
        (good[:40], "cut short"),
        (good[:-1], "cut short: it has"),
        (good + b"x", "damaged"),
        (good[:16] + b"\xff" + good[17:], "damaged: its header"),
        (middle, "damaged: its index"),
        (changed(good, version=VERSION + 1), "format 4, this library reads format 3: load it with a newer torch-tile"),
        (changed(good, version=0), "format 0, this library reads format 3: package the model again"),
        (changed(good, index=good[offset:] + b"\0"), "damaged: bytes left over"),
        (changed(good, index=good[offset:-3]), "damaged: "),
    ]:
        path.write_bytes(data)
        with pytest.raises(PackageError, match=message):
            torch_tile.aot.load(path)
    with pytest.raises(PackageError, match=r"cannot open package .*nowhere.tile.: No such file"):
        torch_tile.aot.load(tmp_path / "nowhere.tile")
    path.write_bytes(good[:64] + bytes([good[64] ^ 255]) + good[65:])
    with pytest.raises(PackageError, match="damaged: the bytes at 64"):
        torch_tile.aot.verify(path)


def test_damaged_constants(mixed: tuple[Mixed, Path], tmp_path: Path) -> None:
    """One changed bit of any constant is found when the file is loaded, and the constant is named."""
    good, path = mixed[1].read_bytes(), tmp_path / "bad.tile"
    values = [bytes(v.view(-1).view(torch.uint8).tolist()) for v in torch_tile.aot.load(mixed[1]).constants().values()]
    values = [stored for stored in values if len(stored) >= 16]  # others are found elsewhere, too
    assert len(values) > 1
    for stored in values:
        start = good.index(stored)
        for place in (start, start + len(stored) - 1):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(PackageError, match=r"package is damaged: constant '.*' does not have the checksum"):
                torch_tile.aot.load(path)


@torch.no_grad()
def test_constants_of_many_bytes(tmp_path: Path) -> None:
    """They are checked by several threads; the result does not depend on it."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(12)))
    path = tmp_path / "m.tile"
    torch_tile.aot.package(export(model, (torch.randn(2, 1024),)), path)
    x = torch.randn(2, 1024)
    torch.testing.assert_close(torch_tile.aot.load(path)(x), model(x))
    data = bytearray(path.read_bytes())
    for name in ("3.weight", "9.weight"):
        start = data.index(bytes(dict(model.named_parameters())[name].detach().view(torch.uint8)[0, :64].tolist()))
        data[start + 1000] ^= 4
    path.write_bytes(data)
    for _ in range(3):
        with pytest.raises(PackageError, match=r"constant '3\.weight' does not have the checksum"):
            torch_tile.aot.load(path)


@torch.no_grad()
def test_written_buffers_of_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants of equal bytes are stored once, unless a program writes one of them."""
    model, x = Equals(), torch.zeros(2, 4)
    exported = export(copy.deepcopy(model), (x,))
    targets = ["x86-64-v2", "host"] if _C.processor_architecture() == "x86_64" else ["host"]
    path = torch_tile.aot.package(exported, tmp_path / "m.tile", targets=targets)
    assert len(_C.open_package(path).constants) == len({row[4] for row in _C.open_package(path).constants}) == 3
    loaded = torch_tile.aot.load(path)
    for _ in range(3):
        assert torch.equal(loaded(x), model(x))
    assert torch.equal(loaded.constants()["weight"], torch.ones(4))

    # A file in which they are shared.
    blob = Writer.blob
    monkeypatch.setattr(Writer, "blob", lambda self, data, owner="": blob(self, data))
    path = torch_tile.aot.package(exported, tmp_path / "n.tile")
    with pytest.raises(PackageError, match=r"constants '.*' and '.*' share bytes, and one of them is written"):
        torch_tile.aot.load(path)


def read_all(path: Path) -> str:
    """Everything of a package but running it; the first reason against it."""
    try:
        file = _C.open_package(str(path))
        file.verify()
        for row in file.constants:
            assert len(row[2]) == len(row[3])
        file.choose(0)
    except torch_tile.TileError as error:
        return str(error)
    return ""


def test_random_bytes(mixed: tuple[Mixed, Path], tmp_path: Path) -> None:
    """Bytes of index and programs changed behind valid checksums: an error or a package, and nothing else."""
    good, path, rng = mixed[1].read_bytes(), tmp_path / "bad.tile", random.Random(0)
    (offset,) = struct.unpack_from("<Q", good, 24)
    reasons = set()
    for round in range(400):
        index, blobs = bytearray(good[offset:]), bytearray(good[HEADER_BYTES:offset])
        for _ in range(rng.choice((1, 1, 2, 8))):
            index[rng.randrange(len(index))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if round % 4 == 0:
            del index[rng.randrange(len(index)) :]
        path.write_bytes(header(offset, bytes(index)) + bytes(blobs) + bytes(index))
        reasons.add(read_all(path).split(" at byte")[0])
    assert len(reasons) > 10
    # A program of other bytes: its checksum has to fit for the artifact's reader to see it.
    file = _C.open_package(str(mixed[1]))
    size = file.variants[0]["program_bytes"]
    crcs = {zlib.crc32(good[start : start + size]): start for start in range(64, offset, 64)}
    for _ in range(200):
        index = bytearray(good[offset:])
        data = bytearray(good)
        for crc, start in crcs.items():
            encoded = uint(crc)
            if (at := index.find(encoded)) >= 0 and len(encoded) >= 4:
                place = start + rng.randrange(size)
                data[place] = rng.randrange(256)
                new = uint(zlib.crc32(data[start : start + size]))
                if len(new) == len(encoded):
                    index[at : at + len(new)] = new
        path.write_bytes(header(offset, bytes(index)) + bytes(data[HEADER_BYTES:offset]) + bytes(index))
        read_all(path)


def test_threads(mixed: tuple[Mixed, Path]) -> None:
    """A model that writes its buffer counts every call, whoever makes them."""
    import threading

    loaded = torch_tile.aot.load(mixed[1])
    errors: list[Any] = []

    def work() -> None:
        try:
            for _ in range(25):
                loaded(torch.randn(8, 16), torch.randn(8, 3))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and loaded.constants()["count"].item() == 100


def test_loading_imports_no_compiler(tmp_path: Path) -> None:
    """A process that loads a model starts in the time that its file takes."""
    exported = export(Pointwise(), (torch.randn(3, 24), torch.randn(3, 24)))
    path = torch_tile.aot.package(exported, tmp_path / "m.tile")
    code = f"""
import sys, torch, torch_tile
torch_tile.aot.load({str(path)!r})(torch.ones(3, 24), torch.ones(3, 24))
print([m for m in ("torch._dynamo", "torch_tile.frontend", "torch_tile.aot.packager") if m in sys.modules])
"""
    assert run_python(code, imports=False).splitlines()[-1] == "[]"


def test_names_of_frozen_constants(tmp_path: Path) -> None:
    """A weight that is transposed once is another tensor, also where it is square."""
    model = torch.nn.Linear(4, 4)
    exported = torch.export.export(model, (torch.randn(2, 4),))
    file = torch_tile.aot.package(exported, tmp_path / "m.tile", options={"freezing": True})
    for name, value in torch_tile.aot.load(file).constants().items():
        assert name.startswith("computed_") or torch.equal(value, model.state_dict()[name])
