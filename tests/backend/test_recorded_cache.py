"""Graphs that run as CUDA graphs are kept on disk: a second process traces nothing, and records what it loads.

Recording needs a device; torch's function for it is replaced by one that notes what it is asked for.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import torch_tile
from tests.compiling import fresh, tile_only
from torch_tile.frontend import aot, compile, cudagraphs, time_libraries

pytestmark = [
    tile_only,
    pytest.mark.skipif(
        not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="entries are kept with tried versions of torch"
    ),
]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the graphs that the front end printed; none where an entry was used."""
    kinds: list[str] = []
    compile_one = compile._compile

    def spy(gm: Any, name: str, kind: str, *rest: Any) -> Any:
        kinds.append(kind)
        return compile_one(gm, name, kind, *rest)

    monkeypatch.setattr(compile, "_compile", spy)
    return kinds


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What torch is asked to record: its arguments, and the tensors of the first call."""
    asked: list[dict[str, Any]] = []

    def cudagraphify(program: Any, inputs: list[Any], static: Any, **options: Any) -> Any:
        asked.append({"static": list(static), "num_inputs": len(inputs), **options})
        return program

    import torch._inductor.cudagraph_trees

    monkeypatch.setattr(torch._inductor.cudagraph_trees, "cudagraphify_impl", cudagraphify)
    monkeypatch.setattr(cudagraphs, "reason_against", lambda *facts: None)
    return asked


def again(function: Any, *args: Any, **options: Any) -> Any:
    """The result of a first call, as a new process would make it."""
    fresh()
    return torch.compile(function, backend="tile", options={"triton.cudagraphs": True, **options})(*args)


def test_inference(cache_dir: Path, traced: list[str], recorded: list[dict[str, Any]]) -> None:
    w = torch.nn.Parameter(torch.randn(4, 4))
    x = torch.randn(8, 4)
    with torch.no_grad():
        first = again(lambda x: torch.softmax(x @ w, -1), x)
        second = again(lambda x: torch.softmax(x @ w, -1), x)
    assert traced == ["inference"]
    assert torch.equal(first, second)
    assert len(recorded) == 2 and recorded[0] == recorded[1]
    assert recorded[0]["is_inference"] and len(recorded[0]["static"]) == 1 and recorded[0]["num_inputs"] == 2


def test_training(cache_dir: Path, traced: list[str], recorded: list[dict[str, Any]]) -> None:
    x, w = torch.randn(8, 4), torch.nn.Parameter(torch.randn(4, 4))
    grads = []
    for _ in range(2):
        again(lambda x: torch.tanh(x @ w).square().sum(), x).backward()
        grads.append(w.grad)
        w.grad = None
    assert traced == ["forward", "backward"]
    assert torch.equal(*grads)
    assert recorded[:2] == recorded[2:] and len(recorded) == 4
    assert [each["is_backward"] for each in recorded] == [False, True] * 2


def test_written_buffers(cache_dir: Path, traced: list[str], recorded: list[dict[str, Any]]) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.count

    for _ in range(2):
        model = Counter()
        with torch.no_grad():
            assert torch.equal(again(model, torch.ones(3)), torch.ones(3))
        assert torch.equal(model.count, torch.ones(3))
    assert traced == ["inference"]
    assert recorded[0] == recorded[1] and len(recorded[0]["mutated_input_idxs"]) == 1


@pytest.mark.parametrize("freezing", [False, True])
def test_of_what_has_constants(
    cache_dir: Path, traced: list[str], recorded: list[dict[str, Any]], freezing: bool
) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).eval()
    x = torch.randn(8, 4)
    with torch.no_grad():
        results = [again(model, x, freezing=freezing) for _ in range(2)]
        assert traced == ["inference"]
        assert torch.equal(*results)
        torch.testing.assert_close(results[0], model(x))
        assert recorded[0] == recorded[1]
        assert recorded[0]["static"] == ([] if freezing else [0, 1, 3, 4]), "what is frozen is no input any more"
        assert recorded[0]["num_inputs"] == (1 if freezing else 5)
        # Parameters that change after a warm start.
        function = torch.compile(model, backend="tile", options={"triton.cudagraphs": True, "freezing": freezing})
        function(x)
        model[0].weight.mul_(2)
        torch.testing.assert_close(function(x), model(x))


def test_on_the_cpu_the_entry_is_that_of_a_plain_program(cache_dir: Path, traced: list[str]) -> None:
    for _ in range(2):
        again(lambda x: x.sin() + 1, torch.randn(4))
    assert traced == ["inference"]


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_why_nothing_is_recorded_is_said(mode: str, cache_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the log of what is compiled anew, not as a warning: the mode does what it can."""
    fresh()
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, logger="torch_tile"):
        warnings.simplefilter("error")
        torch.compile(lambda x: x.sin() + 1, backend="tile", mode=mode)(torch.randn(4))
    said = [r for r in caplog.records if "CUDA graph" in r.getMessage()]
    assert [r.levelno for r in said] == [logging.INFO]
    assert said[0].getMessage().endswith(" is not recorded as a CUDA graph: its kernels run on the CPU")


def reasons(function: Any, *args: torch.Tensor) -> str | None:
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(function, tracing_mode="fake")(*args)
    return cudagraphs.reason_against(gm, "cuda:0", "inference", False)


def test_reasons_against_recording() -> None:
    x = torch.randn(4)
    assert reasons(lambda x: x + 1, x) == "'x_1' is on cpu"
    gm = torch.fx.GraphModule({}, torch.fx.Graph())
    assert cudagraphs.reason_against(gm, "cpu", "inference", False) == "its kernels run on the CPU"
    assert cudagraphs.reason_against(gm, "cuda:0", "inference", True) == "it calls Python"
    assert cudagraphs.reason_against(gm, "cuda:0", "inference", False) is None


def test_the_library_that_was_the_fastest(cache_dir: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`max_autotune` times libraries once; a warm start takes the one that was chosen."""
    libraries: list[str] = []
    compile_graph = compile._C.compile_graph

    def spy(*args: Any, **options: Any) -> Any:
        libraries.append(options["matmul_library"])
        return compile_graph(*args, **options)

    def fastest(gm: Any, graph: Any, program: Any, kind: str, settings: Any, compile_with: Any) -> Any:
        return compile_with("onednn"), "onednn"

    monkeypatch.setattr(compile._C, "compile_graph", spy)
    monkeypatch.setattr(time_libraries, "fastest", fastest)
    x, w = torch.randn(64, 96), torch.randn(96, 80)
    for _ in range(2):
        fresh()
        with torch.no_grad():
            torch.compile(lambda x, w: torch.relu(x @ w), backend="tile", mode="max-autotune")(x, w)
    assert traced == ["inference"]
    assert libraries[-1] == "onednn"


@pytest.mark.parametrize("options", [{}, {"freezing": True}])
def test_artifacts(cache_dir: Path, recorded: list[dict[str, Any]], tmp_path: Path, options: dict[str, bool]) -> None:
    """A saved graph is recorded where it is loaded."""
    x, w = torch.randn(8, 4), torch.nn.Parameter(torch.randn(4, 4))
    with torch.no_grad():
        gm = make_fx(lambda x, w: (torch.softmax(x @ (w * 2), -1),), tracing_mode="fake")(x, w)
        artifact = torch_tile.standalone_compile(gm, [x, w], options={"triton.cudagraphs": True, **options})
        first = artifact(x, w)[0]
        artifact.save(path=tmp_path / "artifact")
        fresh()
        loaded = torch_tile.CompiledArtifact.load(path=tmp_path / "artifact")
        assert len(recorded) == 1 and torch.equal(first, loaded(x, w)[0])
    assert len(recorded) == 2 and recorded[0] == recorded[1] and recorded[0]["is_inference"]
