"""Compiled graphs that are saved and loaded: standalone_compile, and torch.compile(...).aot_compile."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import torch_tile
from tests.compiling import assert_same, count, fresh, run_python, tile_only
from torch_tile.errors import ArtifactError, OptionError, PackageError

pytestmark = tile_only
if not torch.__version__.startswith("2.13."):
    pytest.skip("entries of AOTAutograd are kept with torch 2.13", allow_module_level=True)


def layer(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return F.gelu(torch.softmax(x @ w, -1) + 1), x.sum(-1)


def double(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x * 2,)


def captured(function: Any, *inputs: Any, dynamic: bool = False) -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*inputs)


X, W = torch.linspace(-1, 1, 35).reshape(5, 7), torch.linspace(0, 1, 63).reshape(7, 9)


@pytest.mark.parametrize("format", ["binary", "unpacked"])
def test_saved_and_loaded(tmp_path: Path, cache_dir: Path, format: Literal["binary", "unpacked"]) -> None:
    gm = captured(layer, X, W)
    text = gm.code
    artifact = torch_tile.standalone_compile(gm, [X, W])
    assert gm.code == text
    assert_same(list(artifact(X, W)), list(layer(X, W)))
    for _ in range(2):  # what is there is replaced
        artifact.save(path=tmp_path / "artifact", format=format)
    assert (tmp_path / "artifact").is_dir() == (format == "unpacked")
    fresh()
    loaded = torch_tile.CompiledArtifact.load(path=tmp_path / "artifact", format=format)
    assert count("graphs") == count("graphs_from_disk") == 1, "nothing is compiled again"
    assert_same(list(loaded(X, W)), list(layer(X, W)))
    loaded.save(path=tmp_path / "again")
    assert_same(list(torch_tile.CompiledArtifact.load(path=tmp_path / "again")(X, W)), list(layer(X, W)))


def test_training(tmp_path: Path) -> None:
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    layer(x, w)[0].square().sum().backward()
    expected = x.grad, w.grad
    inputs = [X.clone().requires_grad_(), W.clone().requires_grad_()]
    torch_tile.standalone_compile(captured(layer, *inputs), inputs).save(path=tmp_path / "artifact")
    fresh()
    loaded = torch_tile.CompiledArtifact.load(path=tmp_path / "artifact")
    assert count("graphs_from_disk") == 2
    loaded(*inputs)[0].square().sum().backward()
    assert_same([x.grad for x in inputs], list(expected), rtol=1e-5, atol=1e-5)


def test_dynamic_sizes(tmp_path: Path) -> None:
    gm = captured(layer, X, W, dynamic=True)
    torch_tile.standalone_compile(gm, _fakes(gm), dynamic_shapes="from_graph").save(path=tmp_path / "artifact")
    loaded = torch_tile.CompiledArtifact.load(path=tmp_path / "artifact")
    for rows in (2, 5, 33):
        x = torch.randn(rows, 7)
        assert_same(list(loaded(x, W)), list(layer(x, W)), rtol=1e-5, atol=1e-5)


def _fakes(gm: torch.fx.GraphModule) -> list[Any]:
    return [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]


def test_options(tmp_path: Path) -> None:
    gm = captured(lambda x: ((torch.exp(x) * 2).sum(-1) + x.sum(),), X)
    with pytest.raises(OptionError, match="fusoin"):
        torch_tile.standalone_compile(gm, [X], options={"fusoin": True})
    artifact = torch_tile.standalone_compile(gm, [X], options={"fusion": False})
    artifact.save(path=tmp_path / "artifact")
    kernels = count("kernels")
    assert kernels > 1
    fresh()
    torch_tile.CompiledArtifact.load(path=tmp_path / "artifact")
    assert count("kernels") == kernels and count("graphs_from_disk") == 1
    with pytest.raises(ValueError, match="format expected 'binary' or 'unpacked', got 'zip'"):
        artifact.save(path=tmp_path / "artifact", format="zip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"gm expected to return a tuple or list"):
        torch_tile.standalone_compile(captured(torch.sin, X), [X])
    with pytest.raises(ValueError, match="dynamic_shapes expected 'from_graph'"):
        torch_tile.standalone_compile(gm, [X], dynamic_shapes="all")  # type: ignore[arg-type]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The artifact that was there stays, and no part of the new one is left."""
    resource = pytest.importorskip("resource")
    artifact = torch_tile.standalone_compile(captured(double, X), [X])
    with pytest.raises(FileNotFoundError, match=r"there is no folder to write the artifact into: .*missing'$"):
        artifact.save(path=tmp_path / "missing" / "artifact")
    artifact.save(path=tmp_path / "artifact")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            artifact.save(path=tmp_path / "artifact")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [each.name for each in tmp_path.iterdir()] == ["artifact"]
    assert_same(torch_tile.CompiledArtifact.load(path=tmp_path / "artifact")(X)[0], X * 2)


def test_what_cannot_be_kept_says_why(tmp_path: Path) -> None:
    gm = captured(double, X)
    artifact = torch_tile.standalone_compile(gm, [X], options={"only_first_graphs": 0})
    assert_same(artifact(X)[0], X * 2)
    with pytest.raises(ArtifactError, match="the graph cannot be kept: it runs in eager mode"):
        artifact.save(path=tmp_path / "artifact")
    x = torch.randn(6)
    graph = make_fx(lambda x: (torch.histc(x, 4, 0, x.shape[0] * 0.5),), tracing_mode="symbolic")(x)
    counted = torch_tile.standalone_compile(graph, [x])
    with pytest.raises(
        ArtifactError, match=r"calls an operator through Python: aten::histc: no kernel for this case: "
    ):
        counted.save(path=tmp_path / "artifact")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious.txt").write_text("mine")
    artifact = torch_tile.standalone_compile(gm, [X])
    with pytest.raises(ArtifactError, match="holds files that are no artifact"):
        artifact.save(path=tmp_path / "folder", format="unpacked")
    with pytest.raises(ArtifactError, match="is a folder"):
        artifact.save(path=tmp_path / "folder")
    assert (tmp_path / "folder" / "precious.txt").read_text() == "mine"


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    torch_tile.standalone_compile(captured(double, X), [X]).save(path=path)
    whole = path.read_bytes()
    cases = {
        "it does not begin with 'TILEPACK'": b"PK\3\4" + whole[4:],
        "no package of torch-tile": b"torch_tile artifact 1\n" + whole,
        "format 9, this library reads format 3: load it with a newer": whole[:8] + b"\x09" + whole[9:],
        "cut short": whole[:-1],
        "it is empty": b"",
    }
    for reason, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=reason.strip()):
            torch_tile.CompiledArtifact.load(path=path)
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        with pytest.raises(ArtifactError):
            torch_tile.CompiledArtifact.load(path=path)
    with pytest.raises(FileNotFoundError):
        torch_tile.CompiledArtifact.load(path=tmp_path / "missing")


def test_artifacts_and_models_are_told_apart(tmp_path: Path) -> None:
    """Both are packages: one container, one reader."""
    path, model = tmp_path / "artifact", tmp_path / "model"
    torch_tile.standalone_compile(captured(double, X), [X]).save(path=path)
    torch_tile.aot.package(torch.export.export(torch.nn.ReLU(), (X,)), model)
    torch_tile.aot.verify(path)
    with pytest.raises(PackageError, match=r"is an artifact of standalone_compile: torch_tile\.CompiledArtifact\.load"):
        torch_tile.aot.load(path)
    with pytest.raises(ArtifactError, match=r"is a packaged model: torch_tile\.aot\.load loads it"):
        torch_tile.CompiledArtifact.load(path=model)


def test_headers_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    torch_tile.standalone_compile(captured(double, X), [X]).save(path=path, format="unpacked")
    header = json.loads((path / "header.json").read_text())
    cases: dict[str, Any] = {
        "does not hold 'torch'": {name: value for name, value in header.items() if name != "torch"},
        "does not hold 'key'": {name: value for name, value in header.items() if name != "key"},
        "options of type list": {**header, "options": []},
        "list indices must be integers": [],
        "made by another version of torch_tile: unknown option 'fusoin'": {**header, "options": {"fusoin": 1}},
        "does not hold 'conditions'": {**header, "guards": {"names": [], "kinds": [], "needs_grad": []}},
        "invalid syntax": {**header, "guards": {**header["guards"], "conditions": ["1 +* 2"]}},
    }
    for reason, content in cases.items():
        (path / "header.json").write_text(json.dumps(content))
        with pytest.raises(ArtifactError, match=reason):
            torch_tile.CompiledArtifact.load(path=path, format="unpacked")
    with pytest.raises(ArtifactError, match="is a folder: load it with format='unpacked'"):
        torch_tile.CompiledArtifact.load(path=path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="is a file: load it with format='binary'"):
        torch_tile.CompiledArtifact.load(path=tmp_path / "file", format="unpacked")


def test_another_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "artifact"
    torch_tile.standalone_compile(captured(double, X), [X]).save(path=path)
    monkeypatch.setattr(torch, "__version__", "2.13.9")
    with pytest.raises(ArtifactError, match=r"was made with torch 2\.13\.\S+, and this is torch 2\.13\.9"):
        torch_tile.CompiledArtifact.load(path=path)


# torch.compile(...).aot_compile


@pytest.mark.parametrize("options", [{}, {"freezing": True}, {"cudagraphs": True, "deterministic": True}])
def test_aot_compile(tmp_path: Path, options: dict[str, Any]) -> None:
    """Saved here and loaded in a process with an empty cache."""
    module = tmp_path / "model_of_test.py"
    module.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.linspace(1, 2, 9))\n"
        "    def forward(self, x, w):\n"
        "        return torch.nn.functional.gelu(torch.softmax(x @ w, -1)) * (self.scale + 1) + x.shape[0]\n"
    )  # fmt: skip
    path = tmp_path / "compiled"
    common = f"import sys, torch; sys.path.insert(0, {str(tmp_path)!r}); from model_of_test import Model\n"
    common += "model = Model(); torch.set_grad_enabled(False)\n"
    common += "x, w = torch.linspace(-1, 1, 35).reshape(5, 7), torch.linspace(0, 1, 63).reshape(7, 9)\n"
    first = f"""
with torch._dynamo.config.patch(enable_aot_compile=True):
    compiled = torch.compile(model, backend="tile", fullgraph=True, options={options!r} or None)
    function = compiled.forward.aot_compile(((x, w), {{}}))
torch.testing.assert_close(function(model, x, w), model(x, w))
function.save_compiled_function({str(path)!r})
"""
    run_python(common + first, TORCH_TILE_CACHE_DIR=str(tmp_path / "one"))
    second = f"""
import torch_tile
with open({str(path)!r}, "rb") as file, torch._dynamo.config.patch(enable_aot_compile=True):
    function = torch.compiler.load_compiled_function(file)
torch.testing.assert_close(function(model, x, w), model(x, w))
assert torch_tile.counters["graphs"] == torch_tile.counters["graphs_from_disk"] == 1
model.scale.add_(1)
torch.testing.assert_close(function(model, x, w), model(x, w))
try:
    function(model, x.double(), w.double())
except RuntimeError as error:
    assert "GuardManager check failed" in str(error)
else:
    raise SystemExit("guards are not checked")
"""
    run_python(common + second, TORCH_TILE_CACHE_DIR=str(tmp_path / "two"))


def test_graph_of_real_tensors(cache_dir: Path) -> None:
    """make_fx with real tensors gives each value a fake mode of its own."""
    assert_same(list(torch_tile.standalone_compile(make_fx(layer)(X, W), [X, W])(X, W)), list(layer(X, W)))
    with pytest.raises(TypeError, match=r"gm expected a torch.fx.GraphModule, got function"):
        torch_tile.standalone_compile(layer, [X, W])  # type: ignore[arg-type]


_ON_ANOTHER_TORCH = """
import os
import torch
from torch._functorch._aot_autograd import autograd_cache
del autograd_cache._collect_saved_tensors_hooks_fx_wrap_cache_hashes  # torch 2.11 has none
from torch.fx.experimental.proxy_tensor import make_fx
import torch_tile
from torch_tile.frontend import aot
import torch_tile.frontend.standalone as standalone
aot.CACHED_VERSIONS = standalone.CACHED_VERSIONS = ("1.0.",)
x = torch.arange(8.0)
artifact = torch_tile.standalone_compile(make_fx(lambda x: (x * 2 + 1,))(x), [x])
assert torch.equal(artifact(x)[0], x * 2 + 1)
try:
    artifact.save(path=os.environ["PLACE"])
except torch_tile.ArtifactError as error:
    print(error)
"""


def test_without_private_parts_of_torch(tmp_path: Path) -> None:
    """With a version of torch whose traces are not kept, a graph is compiled, and `save` says why it is not saved."""
    output = run_python(_ON_ANOTHER_TORCH, PLACE=str(tmp_path / "artifact"))
    assert "graphs are kept with torch 1.0.*, and this is torch" in output
