"""What AOTAutograd made of a graph is kept on disk: a second process traces nothing, and is never wrong."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters as dynamo_counters
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

import torch_tile
from tests import processes
from tests.compiling import run_python
from torch_tile.frontend import aot, autograd_cache

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="entries are kept with tried versions of torch only"
)


def again(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result of a first call, as a new process would make it."""
    torch.compiler.reset()
    return torch.compile(function, backend="tile", **options)(*args)


def files_in(folder: Path) -> list[Path]:
    """What is there once everything is written."""
    torch_tile._C.flush_disk_cache()
    return [file for file in folder.rglob("*") if file.is_file()]


def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).square().sum()


def test_inference_is_not_traced_again(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(8, 4)
    first = again(lambda x: torch.softmax(x, -1) * 2, x)
    assert traced == ["inference"]
    second = again(lambda x: torch.softmax(x, -1) * 2, x)
    assert traced == ["inference"]
    assert torch.equal(first, second)
    assert torch_tile.counters["graphs"] == 2


def test_training_is_not_traced_again(cache_dir: Path, traced: list[str]) -> None:
    x, w = torch.randn(8, 4), torch.randn(4, 4, requires_grad=True)
    grads = []
    for _ in range(3):
        again(loss, x, w).backward()
        grads.append(w.grad)
        w.grad = None
    assert traced == ["forward", "backward"]
    expected = torch.autograd.grad(loss(x, w), w)[0]
    for grad in grads:
        torch.testing.assert_close(grad, expected)


def test_options_grad_mode_and_autocast_have_entries_of_their_own(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(8, 8).bfloat16()

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).exp() * 3

    again(f, x)
    again(f, x, options={"emulate_precision_casts": True})
    with torch.no_grad():
        again(f, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again(f, x)
    assert len(traced) == 4


@pytest.mark.parametrize("dynamic", [False, True])
def test_leaves_have_entries_of_their_own(cache_dir: Path, dynamic: bool) -> None:
    """Of an operand that has no gradient, a result requires one if the operand is a leaf."""

    def counted(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, 0, [2, 1])

    leaf = torch.randn(13, 2, 10, requires_grad=True)
    for x in (leaf * 2, leaf, leaf * 2):
        torch.compiler.reset()
        expected = torch.compile(counted, backend="aot_eager", dynamic=dynamic)(x).requires_grad
        torch.compiler.reset()
        assert torch.compile(counted, backend="tile", dynamic=dynamic)(x).requires_grad is expected


def test_sizes_and_dtypes_have_entries_of_their_own(cache_dir: Path, traced: list[str]) -> None:
    for x in (torch.randn(3, 5), torch.randn(5, 3), torch.randn(3, 5).double(), torch.randn(5, 3).t()):
        assert torch.equal(again(lambda x: x * 2 + 1, x), x * 2 + 1)
    assert len(traced) == 4


def test_guards_of_an_entry_are_checked(cache_dir: Path, traced: list[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 10 else x - 1

    for size in (20, 5, 30, 6):
        x = torch.randn(size, 3)
        torch.compiler.reset()
        assert torch.equal(torch.compile(f, backend="tile", dynamic=True)(x), f(x))
    assert len(traced) == 2


def test_guards_with_an_or_do_not_stand_for_all(cache_dir: Path, traced: list[str]) -> None:
    """torch joins guards by `and` without parentheses, and one of this program's is an `or`."""

    def piece(x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).tensor_split(3, -2)[1]
        y.unsqueeze_(0)
        return y

    for rows in (7, 14, 9, 8):
        x = torch.randn(rows, 2)
        assert torch.equal(again(piece, x, dynamic=True), piece(x)), rows


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        ("a and b == 0 or c and d", "a and (b == 0 or c) and d"),
        ("(a and b) or c", "((a and b) or c)"),
        ("f(a or b, c and d) and e", "(f(a or b, c and d)) and e"),
        ("L['x'] % 3 > 0 and L['y'] >= 2", "L['x'] % 3 > 0 and L['y'] >= 2"),
        ("", ""),
    ],
)
def test_parentheses_of_guards(joined: str, expected: str) -> None:
    assert autograd_cache.all_of(joined) == expected


def test_floats_that_become_constants_are_not_confused(cache_dir: Path, traced: list[str]) -> None:
    """AOTAutograd makes a constant of a float argument that decides a size, under a guard that no entry holds."""

    def f(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale + int(x.shape[0] * scale)

    x = torch.randn(8)
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(f, backend="tile")
        for scale in (0.5, 0.75, 1.5, 2.25):
            torch.testing.assert_close(compiled(x, scale), f(x, scale))


def test_dynamic_sizes_work_after_a_hit(cache_dir: Path, traced: list[str]) -> None:
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(lambda x: torch.softmax(x, 0).sum(1), backend="tile", dynamic=True)
        for size in (4, 9, 17):
            x = torch.randn(size, 3)
            torch.testing.assert_close(compiled(x), torch.softmax(x, 0).sum(1))
    assert len(traced) == 1


def test_mutated_and_aliased_results(cache_dir: Path, traced: list[str]) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return x[1:], y.t()

    for _ in range(2):
        x, y = torch.ones(4, 3), torch.randn(3, 4)
        a, b = again(f, x, y)
        assert torch.equal(x, torch.full((4, 3), 2.0))
        assert a._base is x and b._base is y
    assert len(traced) == 1


def test_overlap_of_inputs_is_part_of_the_key(cache_dir: Path, traced: list[str]) -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    for offset in (8, 0, 2, 8, 0, 2):
        torch.compiler.reset()
        base, other = torch.arange(16.0), torch.arange(16.0)
        compiled = torch.compile(f, backend="tile", dynamic=True)
        result = compiled(base[:8], base[offset : offset + 8])
        assert torch.equal(result, f(other[:8], other[offset : offset + 8]))
        assert torch.equal(base, other)
        if offset != 8:  # whether overlapping inputs overlap otherwise is not guarded on by torch
            continue
        base, other = torch.arange(16.0), torch.arange(16.0)
        assert torch.equal(compiled(base[:8], base[1:9]), f(other[:8], other[1:9]))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign"])
def test_damaged_entries_are_not_used(cache_dir: Path, traced: list[str], damage: str) -> None:
    x = torch.randn(8, 4)
    again(lambda x: x * 2 + 1, x)
    (file,) = files_in(cache_dir / "autograd")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    written = {"flip": content, "truncate": content[:100], "empty": b"", "foreign": b"not a pickle"}[damage]
    file.write_bytes(written)
    assert torch.equal(again(lambda x: x * 2 + 1, x), x * 2 + 1)
    assert len(traced) == 2
    assert torch.equal(again(lambda x: x * 2 + 1, x), x * 2 + 1)
    assert len(traced) == 2  # the damaged file is gone, the new one is used


def test_entries_that_others_may_write_are_not_used(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(8, 4)
    again(lambda x: x * 2 + 1, x)
    (file,) = files_in(cache_dir / "autograd")
    file.chmod(0o666)
    again(lambda x: x * 2 + 1, x)
    assert len(traced) == 2


def test_no_folder_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: list[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(blocked / "cache"))
    x = torch.randn(4)
    for _ in range(2):
        assert torch.equal(again(lambda x: x * 3, x), x * 3)
    assert len(traced) == 2


def test_off_with_the_cache_and_while_somebody_looks(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(4)
    again(lambda x: x.sin(), x)
    again(lambda x: x.sin(), x, options={"cache": False})
    torch.compiler.reset()
    assert torch_tile.explain(lambda x: x.sin(), x).graphs
    with functorch_config.patch(enable_autograd_cache=False):
        again(lambda x: x.sin(), x)
    assert len(traced) == 4


def test_graphs_that_call_python_are_not_kept(cache_dir: Path, traced: list[str]) -> None:
    def f(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))

    for value in (True, False):
        x = torch.randn(4)
        torch.testing.assert_close(again(f, torch.tensor(value), x), x.sin() if value else x.cos())
    assert len(traced) >= 2


def test_entries_that_are_made_at_once_are_one(cache_dir: Path, traced: list[str]) -> None:
    """Processes that start together miss together; the first one's entry stays."""
    x, w = torch.randn(8, 4), torch.randn(4, 4, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(autograd_cache, "_load", lambda *args: (None, None))
        for _ in range(4):
            again(loss, x, w).backward()
    assert len(traced) == 8
    assert len(files_in(cache_dir / "autograd")) == 1
    again(loss, x, w).backward()
    assert len(traced) == 8


def test_an_entry_that_cannot_be_saved_costs_nothing_else(
    cache_dir: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError("no memory for an entry")

    x = torch.randn(4)
    monkeypatch.setattr(AOTAutogradCache, "_pickle_entry", fail)
    assert torch.equal(again(lambda x: x * 3, x), x * 3)
    assert files_in(cache_dir / "autograd") == []


def test_entries_of_inductor_are_its_own(cache_dir: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """We save by way of a function of torch; what is not ours goes where it went before."""
    keys: list[str] = []
    monkeypatch.setattr(AOTAutogradCache, "save", staticmethod(lambda key, entry, remote: keys.append(key)))
    again(lambda x: x.sin(), torch.randn(4))
    assert keys == [] and len(files_in(cache_dir / "autograd")) == 1
    AOTAutogradCache.save("a key of torch", None, False)  # type: ignore[arg-type]
    assert keys == ["a key of torch"]


def test_torchs_own_switch_stops_all_of_it(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(4)
    for patch in (torch.compiler.config.patch, torch._inductor.config.patch):
        with patch(force_disable_caches=True):
            for _ in range(2):
                again(lambda x: x.sin() + 1, x)
    assert len(traced) == 4
    assert files_in(cache_dir) == []


def test_umask_002(cache_dir: Path, traced: list[str]) -> None:
    """Users whose groups are their own have it; folders that others made have such modes then."""
    before = os.umask(0o002)
    try:
        cache_dir.mkdir()
        for _ in range(2):
            again(lambda x: x.sin() + 1, torch.randn(4))
    finally:
        os.umask(before)
    assert len(traced) == 1
    assert {file.stat().st_mode & 0o777 for file in files_in(cache_dir)} == {0o600}


def test_layers(cache_dir: Path, tmp_path: Path, traced: list[str]) -> None:
    """A cache that was baked into an image serves without being written."""
    x = torch.randn(4)
    again(lambda x: x.sin() + 1, x, options={"cache_dir": str(tmp_path / "baked")})
    files_in(tmp_path)
    again(lambda x: x.sin() + 1, x, options={"cache_layers": str(tmp_path / "baked")})
    assert len(traced) == 1
    assert files_in(cache_dir) == []


def test_without_a_home_there_is_no_disk_cache(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "TORCH_TILE_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def no_entry(user: int) -> Any:
        raise KeyError(f"getpwuid(): uid not found: {user}")

    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    monkeypatch.setattr(torch_tile.config, "_said", set())
    x = torch.randn(4)
    assert torch.equal(again(lambda x: x * 3, x), x * 3)
    assert torch.equal(again(lambda x: x * 4, x), x * 4)
    assert [record.message for record in caplog.records if "disk cache" in record.message] == [
        "the disk cache is off: HOME is not set, and the user has no entry in the list of users; "
        "TORCH_TILE_CACHE_DIR names a folder"
    ]


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "TORCH_TILE_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    folders = []
    for value in (None, ""):
        monkeypatch.delenv("HOME", raising=False)
        if value is not None:
            monkeypatch.setenv("HOME", value)
        folders += [torch_tile.config.resolve().cache_dir(), torch_tile.config.named_folder("~/cache")]
    assert folders[:2] == folders[2:]
    assert folders[1] == f"{pwd.getpwuid(os.getuid()).pw_dir}/cache"


def test_a_relative_home_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("XDG_CACHE_HOME", "TORCH_TILE_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "relhome")
    monkeypatch.setattr(torch_tile.config, "_said", set())
    assert torch_tile.config.resolve().cache_dir() is None
    assert [record.message for record in caplog.records] == [
        "the disk cache is off: HOME is no absolute path: 'relhome'; TORCH_TILE_CACHE_DIR names a folder"
    ]


def test_without_a_home_layers_are_read(
    cache_dir: Path, tmp_path: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4)
    again(lambda x: x * 3, x, options={"cache_dir": str(tmp_path / "baked")})
    files_in(tmp_path)
    monkeypatch.setattr(torch_tile.config, "_default_cache_dir", lambda: None)
    monkeypatch.delenv("TORCH_TILE_CACHE_DIR")
    assert torch.equal(again(lambda x: x * 3, x, options={"cache_layers": str(tmp_path / "baked")}), x * 3)
    assert len(traced) == 1
    assert torch_tile.counters["graphs_from_disk"] == 1
    again(lambda x: x * 4, x, options={"cache_layers": str(tmp_path / "baked")})
    assert len(traced) == 2
    assert len(files_in(tmp_path)) == 3


_SCRIPT = """
import json, sys, torch, torch_tile
import torch._dynamo.utils
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
compiled = torch.compile(model, backend="tile")
loss = compiled(torch.randn(8, 16)).square().mean()
loss.backward()
forbidden = [m for m in sys.modules if m.startswith("torch._inductor.") and
             m.split(".")[2] in ("compile_fx", "lowering", "scheduler", "pattern_matcher", "select_algorithm")]
tracing = [m for m in ("compile", "decompositions", "epilogues", "fx_passes", "channels_last", "freezing", "launches")
           if f"torch_tile.frontend.{m}" in sys.modules]
print(json.dumps({"loss": loss.item(), "grad": model[0].weight.grad.sum().item(), "forbidden": forbidden,
                  "tracing": tracing,
                  "from_disk": torch_tile.counters["graphs_from_disk"],
                  "traced": torch._dynamo.utils.compile_times("csv")[0].count("create_joint") }))
"""


def test_a_second_process_traces_nothing(cache_dir: Path) -> None:
    results = []
    for _ in range(2):
        results.append(json.loads(run_python(_SCRIPT).splitlines()[-1]))
    first, second = results
    assert first["forbidden"] == second["forbidden"] == []
    assert first["tracing"] and second["tracing"] == [], "what a warm start does not need is not imported"
    assert (first["loss"], first["grad"]) == (second["loss"], second["grad"])
    assert first["from_disk"] == 0 and second["from_disk"] == 2


def test_dynamo_counts_the_compile(cache_dir: Path) -> None:
    for _ in range(2):
        dynamo_counters.clear()
        again(lambda x: x.sin() + 1, torch.randn(4))
        assert dynamo_counters["aot_autograd"]["ok"] == 1


_SAVE = """
import sys, torch, torch_tile
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
torch.compile(model, backend="tile")(torch.ones(8, 16)).sum().backward()
content, info = torch.compiler.save_cache_artifacts()
open(sys.argv[1], "wb").write(content)
print(sorted({key.split("/")[0] for key in info.artifacts["torch_tile"]}), info.aot_autograd_artifacts)
"""
_LOAD = """
import sys, torch, torch_tile
info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
torch.compile(model, backend="tile")(torch.ones(8, 16)).sum().backward()
print(torch_tile.counters["graphs"], torch_tile.counters["graphs_from_disk"])
"""


def test_artifacts_travel_to_another_folder(cache_dir: Path, tmp_path: Path) -> None:
    """What torch.compiler.save_cache_artifacts holds of us names no folder, and carries the code of kernels."""

    def run(script: str, folder: str) -> str:
        environment = {**os.environ, "TORCH_TILE_CACHE_DIR": str(tmp_path / folder)}
        done = processes.run("-c", script, tmp_path / "artifacts", env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(_SAVE, "first").splitlines()[-1] == "['autograd', 'graphs', 'kernels'] []"
    assert str(tmp_path).encode() not in (tmp_path / "artifacts").read_bytes()
    assert run(_LOAD, "second").splitlines()[-1] == "2 2"


def test_artifacts_with_other_names_are_left_out(cache_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    from torch_tile.cache_artifacts import TileCacheArtifact

    for key in ("graphs/../../elsewhere", "graphs/12", "nothing", "other/" + "0" * 64):
        TileCacheArtifact(key, b"content").populate_cache()
        assert f"cache artifact {key} is left out" in caplog.text
    assert files_in(cache_dir) == []
