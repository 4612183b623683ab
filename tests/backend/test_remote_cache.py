"""What one machine compiled, another takes from the remote cache; one that fails is left alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.compiling import timed_blocks
from tests.language.conftest import has_compiler
from torch_tile import _C, config, remote_cache
from torch_tile.frontend import aot
from torch_tile.language import choices_on_disk

OPTIONS = {"remote_cache": True}


class Memory:
    """A RemoteCacheBackend that keeps bytes in this process; `fails` says which calls raise."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.fails = ""

    def cache(self) -> Any:
        from torch._inductor.remote_cache import RemoteCache, RemoteCacheBackend, RemoteCacheJsonSerde

        memory = self

        class Backend(RemoteCacheBackend[bytes]):
            def _get(self, key: str) -> bytes | None:
                memory.note("get", key)
                return memory.values.get(key)

            def _put(self, key: str, data: bytes) -> None:
                memory.note("put", key)
                memory.values[key] = data

        return RemoteCache(Backend(), RemoteCacheJsonSerde())

    def note(self, action: str, key: str) -> None:
        self.calls.append((action, key))
        if action == self.fails:
            raise ConnectionError("nobody answers")


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    remote_cache.use(made.cache)
    yield made
    remote_cache.use(None)


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 3, -1).sum(0)


def run(folder: Path, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """A first call in an empty process with this cache folder."""
    torch.compiler.reset()
    torch_tile.counters.clear()
    with config.patch(cache_dir=str(folder)):
        result = torch.compile(function, backend="tile", options={**OPTIONS, **options})(x)
        _C.flush_disk_cache()
    return result


def test_another_machine_compiles_nothing(tmp_path: Path, memory: Memory) -> None:
    x = torch.randn(8, 32)
    first = run(tmp_path / "a", x)
    assert torch_tile.counters["graphs_from_disk"] == 0 and torch_tile.counters["remote_misses"] > 0
    kinds = {key.split("/")[2] for key in memory.values}
    assert kinds == ({"graphs", "autograd"} if torch.__version__.startswith(aot.CACHED_VERSIONS) else {"graphs"})
    memory.calls.clear()
    second = run(tmp_path / "b", x)
    assert torch_tile.counters["graphs_from_disk"] == 1 and torch_tile.counters["remote_hits"] == len(kinds)
    assert torch.equal(first, second)
    assert all(action == "get" for action, _ in memory.calls)
    # Its own disk has it all now: nothing is asked for but further entries under the same key.
    memory.values.clear()
    run(tmp_path / "b", x)
    assert torch_tile.counters["graphs_from_disk"] == 1 and torch_tile.counters["remote_hits"] == 0


def names_in(folder: Path) -> set[str]:
    """Kinds and keys of all entries."""
    _C.flush_disk_cache()
    return {f"{file.parent.name}/{file.name}" for file in folder.glob("*/*") if len(file.name) == 64}


@pytest.mark.parametrize("what", ["training", "freezing"])
def test_what_has_several_programs(what: str, tmp_path: Path, memory: Memory) -> None:
    """Forward and backward, or the program with the one that computes its constants."""
    is_kept = torch.__version__.startswith(aot.CACHED_VERSIONS)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
    x, results = torch.randn(8, 16), []
    for folder in ("a", "b"):
        torch.compiler.reset()
        torch_tile.counters.clear()
        memory.calls.clear()
        with config.patch(cache_dir=str(tmp_path / folder)), torch.set_grad_enabled(what == "training"):
            compiled = torch.compile(model, backend="tile", options={**OPTIONS, "freezing": what == "freezing"})
            results.append(compiled(x))
            if what == "training":
                results[-1].sum().backward()
    assert torch.equal(*results)
    assert {action for action, _ in memory.calls} == ({"get"} if is_kept else {"get", "put"})
    assert torch_tile.counters["graphs_from_disk"] == torch_tile.counters["graphs"] >= 1
    first, second = names_in(tmp_path / "a"), names_in(tmp_path / "b")
    assert first == second and {name.split("/")[0] for name in first} >= {"graphs", "kernels"}


def double(x_ptr: Any, o_ptr: Any, n: Any, B: tl.constexpr) -> None:
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


@pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")
def test_kernels_of_the_language_and_what_was_chosen(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = timed_blocks(monkeypatch)
    x, out, chosen = torch.arange(100.0), torch.empty(100), []
    for folder in ("a", "b"):
        memory.calls.clear()
        with config.patch(cache_dir=str(tmp_path / folder), remote_cache=True):
            configs = [torch_tile.Config({"B": block}) for block in (16, 32)]
            kernel = torch_tile.autotune(configs=configs, key=["n"])(torch_tile.jit(double))
            kernel[lambda given: (torch_tile.cdiv(100, given["B"]),)](x, out.zero_(), 100)
            assert torch.equal(out, 2 * x)
            chosen.append(kernel.best_config)
    assert timed == [16, 32] and chosen[0] == chosen[1]
    assert {action for action, _ in memory.calls} == {"get"}
    kinds = sorted(name.split("/")[0] for name in names_in(tmp_path / "b"))
    assert kinds == ["language", "tuning"], "the other configuration is not asked for"
    assert sorted(key.split("/")[2] for key in memory.values) == ["language", "language", "tuning"]


@pytest.mark.parametrize("is_remote", [False, True])
def test_choices_follow_the_options_of_the_compile(is_remote: bool, tmp_path: Path, memory: Memory) -> None:
    settings = config.resolve(options={"remote_cache": is_remote, "cache_dir": str(tmp_path)})
    choices_on_disk.write(bytes(32), 1, "text", [2.0, 1.0], settings)
    assert [key.split("/")[2] for key in memory.values] == ["tuning"] * is_remote
    other = config.resolve(options={"remote_cache": is_remote, "cache_dir": str(tmp_path / "b")})
    assert choices_on_disk.read(bytes(32), 2, other) == ((1, "text", [2.0, 1.0]) if is_remote else None)


def test_off_by_default(tmp_path: Path, memory: Memory) -> None:
    run(tmp_path, torch.randn(8, 32), remote_cache=False)
    assert memory.calls == [] and config.get("remote_cache") is False


@pytest.mark.parametrize("fails", ["get", "put"])
def test_a_remote_cache_that_is_down(
    tmp_path: Path, memory: Memory, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    memory.fails = fails
    x = torch.randn(8, 32)
    with caplog.at_level(logging.WARNING, "torch_tile"):
        torch.testing.assert_close(run(tmp_path / "a", x), function(x))
        torch.testing.assert_close(run(tmp_path / "b", x), function(x))
    said = [r.getMessage() for r in caplog.records if "remote" in r.getMessage()]
    assert said == ["the remote cache is not used any more: ConnectionError: nobody answers"]
    assert len([call for call in memory.calls if call[0] == fails]) == 1


def test_entries_that_are_no_entries(tmp_path: Path, memory: Memory) -> None:
    x = torch.randn(8, 32)
    first = run(tmp_path / "a", x)
    for number, bad in enumerate((b'"text"', b'{"graphs/xyz": "AA=="}', b'{"../up/00": "AA=="}', b'{"graphs/00": 5}')):
        for key in memory.values:
            memory.values[key] = bad
        assert torch.equal(run(tmp_path / f"b{number}", x), first)
        assert torch_tile.counters["graphs_from_disk"] == 0


def test_redis_without_an_address(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_REDIS_URL", raising=False)
    remote_cache.use(None)
    with caplog.at_level(logging.WARNING, "torch_tile"):
        run(tmp_path, torch.randn(8, 32))
    assert "TORCHINDUCTOR_REDIS_URL is not set" in caplog.text
    remote_cache.use(None)
