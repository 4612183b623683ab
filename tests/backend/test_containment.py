"""Whatever fails inside: eager's answer, a warning with a script that runs, one count, and the next graph compiles."""

from __future__ import annotations

import gc
import re
import runpy
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from tests.compiling import assert_same, count, fresh, gradients, tile_only
from torch_tile import _C, config
from torch_tile.debug import faults
from torch_tile.frontend import attention as attention_module
from torch_tile.frontend import containment, cudagraphs

pytestmark = tile_only

PYTHON_STAGES = ("decompositions", "autograd", "run_passes", "epilogues", "view_inputs", "replace_kernels", "record")
EXTENSION_STAGES = ("import", "load", "program")
COMPILER_STAGES = ("parse", "loops", "fusion", "tile", "kernel", "codegen", "plan", "link")
PYTHON_KINDS = tuple(faults.PYTHON_KINDS)
EXTENSION_KINDS = ("exception", "bad_alloc", "logic_error", "assert")
COMPILER_KINDS = ("exception", "bad_alloc", "logic_error", "fatal", "assert", "abort", "segv", "overflow")
ALL_FAULTS = [
    *((stage, kind) for stage in PYTHON_STAGES for kind in PYTHON_KINDS),
    *((stage, kind) for stage in EXTENSION_STAGES for kind in EXTENSION_KINDS),
    *((stage, kind) for stage in COMPILER_STAGES for kind in COMPILER_KINDS),
]


@pytest.fixture(autouse=True)
def own_folders(cache_dir: Path, tmp_path: Path, set_config: Any) -> None:
    """Nothing on disk hides a stage, and scripts go where the test looks for them."""
    set_config(torch._dynamo.config, "debug_dir_root", str(tmp_path / "debug"))


def run_with_fault(
    stage: str, kind: str, call: Callable[[], Any]
) -> tuple[Any, faults.Fault, list[warnings.WarningMessage]]:
    with faults.injected(stage, kind) as fault, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = call()
    return result, fault, [w for w in said if "torch_tile: graph" in str(w.message)]


def check_script(warning: warnings.WarningMessage, capsys: pytest.CaptureFixture[str]) -> None:
    """The script that the warning names runs, and finds no difference where nothing is broken."""
    found = re.search(r"a script that shows it is (\S+90-run\.py);", str(warning.message))
    assert found, str(warning.message)
    capsys.readouterr()
    with mock.patch.object(sys, "argv", [found[1]]), pytest.raises(SystemExit) as end:
        runpy.run_path(found[1], run_name="__main__")
    said = capsys.readouterr().out
    assert end.value.code == 0 and "largest difference" in said and said.endswith("PASS\n"), said


def inference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1) * 2 + x.sum()


@pytest.mark.parametrize(("stage", "kind"), ALL_FAULTS)
def test_inference(stage: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    fresh()
    x, w = torch.randn(5, 6), torch.randn(6, 7)
    function = torch.compile(inference, backend="tile")
    result, fault, said = run_with_fault(stage, kind, lambda: function(x, w))
    assert fault.reached > 0, "the stage is never reached"
    assert_same(result, inference(x, w), exact=True)
    assert len(said) == 1, [str(w.message) for w in said]
    assert count("fallbacks") == 1
    assert_same(function(x, w), inference(x, w), exact=True)  # and again, without the fault

    # Nothing is left locked or half done.
    if kind == PYTHON_KINDS[0]:
        check_script(said[0], capsys)
    fresh()
    other = torch.compile(lambda x: torch.tanh(x) + 3, backend="tile", options={"strict": True})
    assert_same(other(x), torch.tanh(x) + 3)
    assert count("graphs") == 1 and count("fallbacks") == 0


@pytest.mark.parametrize(("stage", "kind"), [("epilogues", "exception"), ("load", "bad_alloc"), ("fusion", "fatal")])
def test_strict_raises(stage: str, kind: str) -> None:
    x = torch.randn(5, 6)
    function = torch.compile(lambda x: x * 2 - 1, backend="tile", options={"strict": True})
    with faults.injected(stage, kind), pytest.raises(Exception, match=r"injected fault|MemoryError|bad_alloc"):
        function(x)
    assert count("fallbacks") == 0
    assert_same(function(x), x * 2 - 1)


def training(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(torch.tanh(x @ w), (7,)).exp()


@pytest.mark.parametrize("kind", ["exception", "bad_alloc"])
@pytest.mark.parametrize("stage", ["decompositions", "run_passes", "partition", "view_inputs", "record", "import"])
def test_training(stage: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (torch.randn(5, 6), torch.randn(6, 7))
    function = torch.compile(training, backend="tile")
    result, fault, said = run_with_fault(stage, kind, lambda: gradients(function, arguments))
    assert fault.reached > 0
    assert_same(result, gradients(training, arguments), rtol=1e-5, atol=1e-5)
    assert len(said) == count("fallbacks") == 1
    if kind == "exception":
        check_script(said[0], capsys)


@pytest.mark.parametrize("kind", ["exception", "bad_alloc", "fatal", "assert", "segv"])
@pytest.mark.parametrize("stage", ["replace_kernels", "import", "parse", "fusion", "kernel", "program"])
def test_backward_alone(stage: str, kind: str) -> None:
    """It is compiled when a gradient is asked for, on an autograd thread's behalf."""
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    y = torch.compile(training, backend="tile")(x, w)

    def backward() -> torch.Tensor:
        return torch.autograd.grad(y.sum(), w, retain_graph=True)[0]

    gc.collect()  # kernels of other tests' programs
    fresh_counts = count("graphs")
    result, fault, said = run_with_fault(stage, kind, backward)
    assert fault.reached > 0 and fresh_counts == 1
    expected = torch.autograd.grad(training(x, w).sum(), w)[0]
    assert_same(result, expected, rtol=1e-5, atol=1e-5)
    assert len(said) == count("fallbacks") == 1
    assert_same(backward(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stage", ["freezing", "channels_last", "fusion"])
def test_frozen(stage: str) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    x = torch.randn(2, 3, 8, 8)
    freezing = stage != "channels_last"
    with torch.no_grad():
        function = torch.compile(model, backend="tile", options={"freezing": freezing})
        result, fault, said = run_with_fault(stage, "exception", lambda: function(x))
        assert fault.reached > 0 and len(said) == count("fallbacks") == 1
        assert_same(result, model(x), rtol=1e-5, atol=1e-5)


def test_frozen_parameters_change() -> None:
    """The compile that a changed parameter asks for happens inside a call."""
    model = torch.nn.Linear(6, 7)
    x = torch.randn(5, 6)
    with torch.no_grad():
        function = torch.compile(model, backend="tile", options={"freezing": True})
        assert_same(function(x), model(x), rtol=1e-5, atol=1e-5)
        model.weight.mul_(2)
        result, fault, said = run_with_fault("freezing", "exception", lambda: function(x))
        assert fault.reached > 0 and len(said) == count("fallbacks") == 1
        assert_same(result, model(x), rtol=1e-5, atol=1e-5)
        model.weight.add_(1)
        assert_same(function(x), model(x), rtol=1e-5, atol=1e-5)
        assert count("fallbacks") == 1


def test_attention_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over Dynamo's own graph that fails half way leaves it as it was."""
    monkeypatch.setattr(attention_module, "_choose", lambda given: lambda *args, **kwargs: torch.zeros(()))
    q, k, v = (torch.randn(2, 3, 5, 8) for _ in range(3))

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(F.scaled_dot_product_attention(q, k, v), k, v)

    function = torch.compile(attend, backend="tile")
    result, fault, said = run_with_fault("keep_attention", "exception", lambda: function(q, k, v))
    assert fault.reached == 1 and len(said) == 1
    assert_same(result, attend(q, k, v), exact=True)


def test_triton_like_launches_keep_their_graph() -> None:
    """What rewrites launches works on a graph of its own, so that the one of AOTAutograd still runs."""
    import torch_tile
    from torch_tile import language as tl

    @torch_tile.jit
    def double(x: Any, o: Any, n: Any, SIZE: tl.constexpr) -> None:  # type: ignore[valid-type]
        i = tl.arange(0, SIZE)
        tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    def f(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        double[(1,)](x, o, x.numel(), SIZE=16)
        return o + 1

    x = torch.randn(9)
    result, fault, said = run_with_fault("replace_kernels", "exception", lambda: torch.compile(f, backend="tile")(x))
    assert fault.reached == 1 and len(said) == 1
    assert_same(result, x * 2 + 1)


@pytest.mark.parametrize("kind", ["exception", "bad_alloc", "logic_error"])
def test_background_store(kind: str, cache_dir: Path) -> None:
    """A write that fails costs the entry alone."""
    x = torch.randn(5, 6)
    with faults.injected("store", kind) as fault:
        function = torch.compile(lambda x: x * 2 + 1, backend="tile", options={"strict": True})
        assert_same(function(x), x * 2 + 1)
        _C.flush_disk_cache()
    assert fault.reached >= 1
    assert_same(torch.compile(lambda x: x * 3, backend="tile", options={"strict": True})(x), x * 3)
    _C.flush_disk_cache()
    assert sum(1 for _ in (cache_dir / "graphs").iterdir()) == 1


def test_dynamic_sizes_run_on(capsys: pytest.CaptureFixture[str]) -> None:
    function = torch.compile(lambda x: (x * x.shape[0]).sum(), backend="tile", dynamic=True)
    x = torch.randn(5, 6)
    result, _, said = run_with_fault("loops", "assert", lambda: function(x))
    assert_same(result, (x * 5).sum(), rtol=1e-5, atol=1e-5)
    y = torch.randn(8, 6)
    assert_same(function(y), (y * 8).sum(), rtol=1e-5, atol=1e-5)
    check_script(said[0], capsys)


def test_script_of_nested_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2

    x = torch.ones(4)
    result, _, said = run_with_fault("run_passes", "exception", lambda: torch.compile(f, backend="tile")(x))
    assert_same(result, f(x))
    check_script(said[0], capsys)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_passes(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(_C, "print_graph", stop)
    with pytest.raises(error):
        torch.compile(lambda x: x * 5, backend="tile")(torch.randn(3))
    assert count("fallbacks") == 0


def test_no_folder_for_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("no folder")

    monkeypatch.setattr(containment.Dump, "start", refuse)
    x = torch.randn(3)
    result, _, said = run_with_fault("import", "exception", lambda: torch.compile(torch.sin, backend="tile")(x))
    assert_same(result, torch.sin(x), exact=True)
    assert "no script could be written" in str(said[0].message)


def test_a_folder_for_the_script_that_takes_no_files(
    tmp_path: Path, set_config: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    set_config(torch._dynamo.config, "debug_dir_root", str(blocker / "debug"))
    x = torch.randn(3)
    result, _, said = run_with_fault("import", "exception", lambda: torch.compile(torch.sin, backend="tile")(x))
    assert_same(result, torch.sin(x), exact=True)
    assert "; no script could be written; " in str(said[0].message) and "90-run.py" not in str(said[0].message)
    assert f"stages are not written to {blocker / 'debug'}" in capsys.readouterr().err


def test_recording_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph that cannot be set up: the program runs as it is. Nothing of this needs a device."""
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(lambda x: x + 1)(torch.randn(3))
    called = cudagraphs.record(lambda inputs: [inputs[0] + 1], cudagraphs.Recording.of(gm, "cuda:0", "inference"))
    x = torch.randn(3)
    with faults.injected("cudagraphs", "exception"), pytest.warns(UserWarning, match="not recorded"):
        assert_same(called([x])[0], x + 1)
    assert_same(called([x])[0], x + 1)


def test_threads_are_given_back() -> None:
    """A lost compile thread ends; the next compile takes another."""
    torch.compile(lambda x: x - 4, backend="tile", options={"strict": True})(torch.randn(3))
    before = len(list(Path("/proc/self/task").iterdir()))
    for index in range(5):
        torch.compiler.reset()
        run_with_fault("fusion", "segv", lambda i=index: torch.compile(lambda x: x * i, backend="tile")(torch.randn(3)))
    assert len(list(Path("/proc/self/task").iterdir())) <= before + 1


def test_faults_while_others_compile() -> None:
    """A fault on one thread's compile leaves those of others alone."""
    wrong: list[str] = []

    def work(index: int) -> None:
        x = torch.randn(index + 2)
        for scale in range(3):
            result = torch.compile(lambda x, s=scale: torch.exp(x) * (index + s), backend="tile")(x)
            if not torch.allclose(result, torch.exp(x) * (index + scale)):
                wrong.append(f"{index} {scale}")

    with faults.injected("kernel", "abort"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_buffer_limit_is_of_the_process() -> None:
    with pytest.raises(Exception, match=r"'buffer_limit_bytes' is of the process.*config\.set"):
        torch.compile(torch.sin, backend="tile", options={"buffer_limit_bytes": 0})(torch.randn(3))
    x = torch.randn(1 << 20)
    try:
        torch.compile(lambda x: x + 1, backend="tile")(x)
        assert _C.buffer_statistics()["kept_bytes"] > 0
        with config.patch(buffer_limit_bytes=0):
            assert _C.buffer_statistics()["kept_bytes"] == 0
            torch.compile(lambda x: x + 1, backend="tile")(x)
            assert _C.buffer_statistics()["kept_bytes"] == 0
    finally:
        _C.set_buffer_limit(config.get("buffer_limit_bytes"))


CHECKPOINTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: (x * torch.rand(8)).sin(),
    "dropout": lambda x: F.dropout(x, 0.5).sin(),
    "two": lambda x: torch.bernoulli(x.abs().clamp(max=0.5)) * x + (x * torch.randn_like(x)).exp(),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", CHECKPOINTED)
def test_checkpoints_draw_the_same_numbers_again(name: str, fails: bool) -> None:
    """With eager mode's random numbers, in a compiled graph and in one that runs in eager mode."""

    def function(x: torch.Tensor) -> Any:
        y = checkpoint(CHECKPOINTED[name], x, use_reentrant=False)
        return checkpoint(lambda a: CHECKPOINTED[name](a) + y, x, use_reentrant=False)

    def seeded(call: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        return gradients(call, [torch.ones(8)])

    f = torch.compile(function, backend="tile", options={"fallback_random": True})
    expected = seeded(function)
    if fails:
        found, fault, _ = run_with_fault("import", "exception", lambda: seeded(f))
        assert fault.reached
    else:
        found = seeded(f)
        assert count("fallbacks") == 0
    assert_same(found, expected)


def test_quantized_intermediates() -> None:
    """Tracing gives them a dtype that they do not have, so the graph runs in eager mode."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize() * 2

    x = torch.tensor([1.0, 2.0, 3.33])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(torch.compile(function, backend="tile")(x), function(x))
    assert count("fallbacks") == 1


def test_what_torch_cannot_trace_is_said_to_be_torchs() -> None:
    """A tensor that a gradient needs is written: eager mode raises the same."""

    def eliminated(a: torch.Tensor) -> torch.Tensor:
        a = a.clone()
        for k in range(2):
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= torch.outer(a[k + 1 :, k], a[k, k + 1 :])
        return a

    x = torch.eye(3).add(1).requires_grad_()
    for function in (eliminated, torch.compile(eliminated, backend="tile")):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                function(x).sum().backward()
    (warning,) = (str(w.message) for w in said if "torch_tile: graph" in str(w.message))
    assert "could not be traced by AOTAutograd" in warning and "failed to compile" not in warning
