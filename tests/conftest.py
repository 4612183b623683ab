"""What every test shares: an own cache folder, fresh Dynamo state, fixed seeds, and the device to run on."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

# First of all, before anything imports the backend: subprocesses of tests inherit it too.
_cache_dir = tempfile.mkdtemp(prefix="torch-tile-tests-")
os.environ["TORCH_TILE_CACHE_DIR"] = _cache_dir

from tests import processes  # noqa: E402, F401  the variables that programs begin with

_slow_is_fine = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default", max_examples=20, deadline=None, derandomize=True, suppress_health_check=_slow_is_fine
)
settings.register_profile(
    "fuzz", max_examples=2000, deadline=None, derandomize=False, suppress_health_check=_slow_is_fine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# How long tests may begin, where something limits the run: what has failed by then still counts.
_limit_seconds = int(os.environ.get("TEST_SECONDS", "0"))
_started = time.monotonic()


def pytest_runtest_setup() -> None:
    if _limit_seconds and time.monotonic() - _started > _limit_seconds:
        pytest.skip(f"cut off after {_limit_seconds} s")


def pytest_configure() -> None:
    """Every compile measures the latency of its guards, for which Dynamo flushes the processor's caches: 30 ms, a fifth
    of these tests' time. The figure is written to Dynamo's log alone."""
    torch._dynamo.guards.profile_guard_manager = lambda *args: 0.0
    # Nor does anything read Inductor's settings as JSON, which it records for each compile.
    torch._dynamo.utils._scrubbed_inductor_config_for_logging = lambda: None
    # Garbage is collected below.
    torch._dynamo.config.run_gc_after_compile = False
    # Each trace of AOTAutograd makes the offsets of random numbers anew, in twelve tensors: a twelfth of these tests'
    # time. Only `functionalize_rng_ops` uses them.
    from torch._decomp.decompositions_for_rng import PhiloxStateTracker

    tracker: Any = PhiloxStateTracker
    reset = tracker.reset
    reset()
    tracker.reset = lambda: reset() if torch._functorch.config.functionalize_rng_ops else None


_tests_between_freezes = 100
_tests_run = 0


def pytest_runtest_logfinish() -> None:
    """Collections of garbage look at every object, and torch leaves about a thousand behind for each graph with dynamic
    sizes: without this they take a fifth of a long run's time."""
    global _tests_run
    if _tests_run % _tests_between_freezes == 0:
        gc.collect()
        gc.freeze()
    _tests_run += 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """pytest adds its handlers to every logger that does not propagate. Those of torch's structured trace have it build
    and encode each event of each compile, which costs nothing without a handler."""
    torch._logging._internal.trace_log.handlers.clear()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    shutil.rmtree(_cache_dir, ignore_errors=True)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a test file draws while it is imported is the same in each run, like what its tests draw."""
    if isinstance(collector, pytest.Module):
        torch.manual_seed(0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes a file is one process's, which compiles what its tests share once. The largest file is
    divided by function."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            return f"{file}::{test.partition('[')[0]}" if file.endswith("ops/test_ops.py") else file

    return ByFile(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `device` runs on the CPU and on a CUDA device; the marker `gpu` selects the second."""
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)


@pytest.fixture
def set_config() -> Iterator[Callable[[Any, str, Any], None]]:
    """Sets an entry of one of torch's configuration modules until the test ends.

    From 9.2 on pytest's monkeypatch looks for the old value in the module's `__dict__`, where these modules keep none,
    and deletes the entry afterwards.
    """
    with ExitStack() as stack:
        yield lambda config, name, value: stack.enter_context(config.patch(name, value))


@pytest.fixture
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """No test sees another's compiled graphs, counters, random numbers or default settings."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    if package := sys.modules.get("torch_tile"):
        package.counters.clear()
    lost = [name for module in _torch_configs() for name, entry in module._config.items() if entry.hide]
    assert not lost, f"{lost} of torch's configuration left deleted (by monkeypatch? use set_config): later tests fail"


def _torch_configs() -> list[Any]:
    names = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
    return [sys.modules[name] for name in names if name in sys.modules]


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty disk cache for one test and the processes it starts."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(path))
    return path
