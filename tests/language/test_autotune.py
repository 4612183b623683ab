"""@autotune: pruning, parallel compilation, hooks, the choice on disk and what is printed of it."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.compiling import timed_blocks
from tests.language.conftest import has_compiler
from torch_tile import _C
from torch_tile.errors import InvalidKernelError, OutOfResources
from torch_tile.language import choices_on_disk, target_info
from torch_tile.language import compile as language

pytestmark = [
    pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels"),
    pytest.mark.usefixtures("cache_dir"),  # one for each test
]
Config = torch_tile.Config


def double(x_ptr: Any, o_ptr: Any, n: Any, B: tl.constexpr) -> None:
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def grid(args: Any) -> tuple[int]:
    return (torch_tile.cdiv(args["n"], args["B"]),)


def tuned(*blocks: int, function: Any = double, **options: Any) -> Any:
    configs = options.pop("configs", None) or [Config({"B": b}) for b in blocks]
    return torch_tile.autotune(configs=configs, key=["n"], **options)(torch_tile.jit(function))


def run(kernel: Any, n: int = 100) -> torch.Tensor:
    x = torch.arange(float(n))
    o = torch.zeros(n)
    kernel[grid](x, o, n)
    assert torch.equal(o, 2 * x)
    return o


class Bench:
    """Times by a table, fastest for the largest block, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, launch: Any, quantiles: Any) -> list[float]:
        self.calls += 1
        launch()
        return [float(self.calls), 0.0, 0.0]


# --- pruning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k, timed", [(2, 2), (0.5, 2), (0.1, 0), (1.0, 4), (9, 4)])
def test_model_of_performance(top_k: Any, timed: int) -> None:
    seen: list[dict[str, Any]] = []

    def model(**arguments: Any) -> float:
        seen.append(arguments)
        return -float(arguments["B"])

    bench = Bench()
    kernel = tuned(16, 32, 64, 128, prune_configs_by={"perf_model": model, "top_k": top_k}, do_bench=bench)
    run(kernel)
    assert bench.calls == timed
    assert kernel.best_config.kwargs["B"] == (128 if timed < 4 else 16)
    if timed < 4:
        assert [a["B"] for a in seen] == [16, 32, 64, 128]
        assert set(seen[0]) == {"x_ptr", "o_ptr", "n", "B", "num_warps", "num_ctas", "num_stages"}


def test_wrong_top_k() -> None:
    with pytest.raises(TypeError, match=r"top_k expected a count, or a share up to 1\.0, got 2\.5"):
        run(tuned(16, 32, prune_configs_by={"perf_model": lambda **_: 1.0, "top_k": 2.5}))


def test_nothing_left() -> None:
    with pytest.raises(ValueError, match="no configuration is left"):
        run(tuned(16, 32, prune_configs_by={"early_config_prune": lambda configs, named, **_: []}))


def test_names_that_are_no_arguments() -> None:
    with pytest.raises(ValueError, match="restore_value contains names that are not arguments of kernel double: y_ptr"):
        tuned(16, restore_value=["y_ptr"])


def in_place(o_ptr: Any, n: Any, B: tl.constexpr) -> None:
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("what", ["restore_value", "reset_to_zero"])
def test_tensors_that_launches_change(what: str) -> None:
    kernel = tuned(16, 32, function=in_place, **{what: ["o_ptr"]})
    o = torch.full((100,), 5.0)
    kernel[grid](o, 100)
    assert torch.equal(o, torch.full((100,), 6.0 if what == "restore_value" else 1.0))


def test_hooks_of_the_autotuner() -> None:
    events: list[Any] = []

    def before(arguments: Any, reset_only: bool = False) -> None:
        events.append("reset" if reset_only else ("before", arguments["B"]))

    def after(arguments: Any, exception: Any) -> None:
        events.append(("after", exception))

    run(tuned(16, 32, pre_hook=before, post_hook=after, do_bench=Bench()))
    assert events == [("before", 16), ("after", None), ("before", 32), ("after", None), "reset"]


def test_parameters_with_names_of_options() -> None:
    def kernel(o_ptr: Any, n: Any, B: tl.constexpr, num_stages: tl.constexpr) -> None:
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(o_ptr + i, num_stages, mask=i < n)

    o = torch.zeros(20)
    tuned(function=kernel, configs=[Config({"B": 32}, num_stages=7)])[grid](o, 20)
    assert (o == 7).all()


# --- compiling --------------------------------------------------------------------------------------------------------


def with_assertion(x_ptr: Any, o_ptr: Any, n: Any, B: tl.constexpr) -> None:
    tl.static_assert(B < 64, "too large")
    double(x_ptr, o_ptr, n, B)


def test_configurations_that_do_not_compile(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tuned(128, 32, 64, function=with_assertion)
    run(kernel)
    assert kernel.best_config == Config({"B": 32})
    assert [kernel.configs_timings[c] for c in kernel.configs if c.kwargs["B"] >= 64] == [float("inf")] * 2
    with pytest.raises(InvalidKernelError, match="static assertion failed: too large"):
        run(tuned(64, 128, function=with_assertion))


def test_out_of_resources_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_bound = language.compile_bound

    def refuse(kernel: Any, bound: Any, *others: Any) -> Any:
        if bound["B"] == 16:
            raise OutOfResources(
                "codegen", "out of resources: shared memory, required 300000 bytes, limit 232448 bytes"
            )
        return compile_bound(kernel, bound, *others)

    monkeypatch.setattr(language, "compile_bound", refuse)
    kernel = tuned(16, 32)
    run(kernel)
    assert kernel.best_config.kwargs == {"B": 32}


def test_other_errors_are_raised() -> None:
    def wrong(x_ptr: Any, o_ptr: Any, n: Any, B: tl.constexpr) -> None:
        tl.arange(0, B) + tl.arange(0, 2 * B)

    with pytest.raises(InvalidKernelError, match="do not match"):
        run(tuned(16, 32, function=wrong))


def test_compiled_in_parallel(monkeypatch: pytest.MonkeyPatch, set_config: Any) -> None:
    """All candidates are under way at once, in threads of their own."""
    compile_bound, barrier, names = language.compile_bound, threading.Barrier(3, timeout=60), set()

    def meet(*arguments: Any) -> Any:
        names.add(threading.current_thread().name)
        barrier.wait()
        return compile_bound(*arguments)

    monkeypatch.setattr(language, "compile_bound", meet)
    monkeypatch.setenv("TORCH_TILE_COMPILE_THREADS", "3")
    run(tuned(16, 32, 64))
    assert len(names) == 3


def test_targets_of_threads_are_their_own() -> None:
    found: list[bool] = []
    with target_info.compiling_for("sm_90"):
        thread = threading.Thread(target=lambda: found.append(target_info.is_cuda()))
        thread.start()
        thread.join()
        assert target_info.is_cuda() and target_info.cuda_capability_geq(9, 0)
        assert target_info.current_target().arch == 90 and not target_info.cuda_capability_geq(10)
    assert found == [False] and not target_info.is_cuda()


def test_warmup_compiles_all() -> None:
    compiled = tuned(16, 32).warmup(torch.float32, torch.float32, 100, grid=(1,))
    assert len(compiled) == 2 and all("tile.kernel @double" in k.asm["tile"] for k in compiled)


# --- on disk ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, cache_dir: Path) -> list[Any]:
    """Configurations that were timed."""
    return timed_blocks(monkeypatch)


def test_choice_is_kept(timed: list[Any], cache_dir: Path) -> None:
    first = tuned(16, 32)
    run(first)
    _C.flush_disk_cache()
    assert timed == [16, 32]
    second = tuned(16, 32)
    run(second)
    assert timed == [16, 32] and second.best_config == first.best_config
    assert second.configs_timings == first.configs_timings
    (entry,) = (cache_dir / "tuning").iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    for change in (lambda: run(tuned(16, 32), n=101), lambda: run(tuned(16, 64))):
        timed.clear()
        change()
        assert len(timed) == 2


def test_damaged_choices_are_ignored(timed: list[Any], cache_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tuned(16, 32))
    _C.flush_disk_cache()
    (entry,) = (cache_dir / "tuning").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    with caplog.at_level(logging.INFO):
        run(tuned(16, 32))
    assert len(timed) == 4 and "ignored" in caplog.text
    # What is no choice among these.
    _C.flush_disk_cache()
    store = choices_on_disk.disk_cache.open_cache(choices_on_disk.config.resolve())
    assert store is not None
    for content in (b"nothing", json.dumps({"choice": 7, "text": "", "times": [1, 2]}).encode(), b"[]"):
        store.write("tuning", bytes.fromhex(entry.name), content, replace=True)
        timed.clear()
        caplog.clear()
        run(tuned(16, 32))
        assert timed == [16, 32] and "the choice of autotuning in tuning/" in caplog.text


def test_changed_helpers_are_timed_again(timed: list[Any]) -> None:
    for factor, count in ((2, 2), (2, 2), (4, 4)):

        def helper(x: Any, factor: Any = factor) -> Any:
            return x * factor

        def kernel(o_ptr: Any, n: Any, B: tl.constexpr) -> None:
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(o_ptr + i, helper(i), mask=i < n)

        o = torch.zeros(40)
        tuned(16, 32, function=kernel)[grid](o, 40)
        assert torch.equal(o, torch.arange(40.0) * factor)
        _C.flush_disk_cache()
        assert len(timed) == count


def test_hooks_are_not_stored(timed: list[Any], cache_dir: Path) -> None:
    for _ in range(2):
        run(tuned(configs=[Config({"B": b}, pre_hook=lambda _: None) for b in (16, 32)]))
        _C.flush_disk_cache()
    assert len(timed) == 4 and not list(cache_dir.glob("tuning/*"))


def test_choices_are_printed(
    timed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_TILE_PRINT_AUTOTUNING", "1")
    kernel = tuned(16, 32)
    run(kernel)
    printed = capsys.readouterr().out
    assert "Autotuning kernel double with config B: 16, num_warps: 4, num_ctas: 1, num_stages: 3\n" in printed
    assert "torch_tile autotuning for function double,\nwith key as (100, 'torch.float32', 'torch.float32')" in printed
    assert f"best config selected: {kernel.best_config};" in printed
    _C.flush_disk_cache()
    run(tuned(16, 32))
    assert "found on disk" in capsys.readouterr().out
