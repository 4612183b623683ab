"""Values of options that are refused, and folders that options name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import tile_only
from torch_tile import config
from torch_tile.errors import OptionError
from torch_tile.knobs import KNOBS

pytestmark = tile_only

BACKENDS = "expected names of ATEN, TRITON, CUTLASS, CUTEDSL, NVGEMM, CK, CKTILE, CPP, separated by commas, got "


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_autotune_gemm_backends", "FOO", f"{BACKENDS}'FOO'"),
        ("max_autotune_gemm_backends", "ATEN, foo", f"{BACKENDS}'foo'"),
        ("max_autotune_gemm_backends", "", f"{BACKENDS}''"),
        ("max_autotune_conv_backends", "FOO", f"{BACKENDS}'FOO'"),
        ("cpp.simdlen", "a", "expected int | None, as in Inductor, got 'a'"),
        ("compile_threads", "a", "expected int | None, as in Inductor, got 'a'"),
        ("force_disable_caches", 3, "expected bool, as in Inductor, got 3"),
        ("cpu_backend", "c", "expected one of 'cpp', 'triton', 'halide', 'pallas', as in Inductor, got 'c'"),
        ("threads", 10**9, "expected int from 0 to 1024, got 1000000000"),
        ("compile_threads", 10**9, "expected int from 0 to 1024, got 1000000000"),
        ("body_budget", 1 << 31, "expected int from 1 to 2147483647, got 2147483648"),
        ("index_budget", 1 << 31, "expected int from 1 to 2147483647, got 2147483648"),
        ("kernel_budget_ms", 1 << 31, "expected int from 0 to 2147483647, got 2147483648"),
        ("cache_limit_bytes", 1 << 63, "expected int from 0 to 9223372036854775807, got 9223372036854775808"),
        ("fullgraph", True, "'fullgraph' is an argument of torch.compile, not an option: torch.compile(..., full"),
        ("dynamic", True, "'dynamic' is an argument of torch.compile"),
        ("mode", "default", "'mode' is an argument of torch.compile"),
        ("target", "sm_90", "expected a processor, got the GPU 'sm_90': graphs are compiled for the GPU that"),
        ("target", "sm_50", "expected a processor, got the GPU 'sm_50'"),
        ("cache_dir", "a\0b", "expected a text without null characters, got 'a\\x00b'"),
        ("cache_layers", "\0", "expected a text without null characters"),
        ("target", "cuda", "torch_tile.aot.package(..., targets=[...])"),
    ],
)  # fmt: skip
def test_refused_values(name: str, value: Any, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        torch.compile(lambda x: x + 1, backend="tile", options={name: value})
    assert name in str(caught.value) and text in str(caught.value)


@pytest.mark.parametrize("name", sorted(name for name, knob in KNOBS.items() if knob.environment))
def test_an_empty_variable_counts_as_unset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KNOBS[name].environment:
        monkeypatch.setenv(variable, "")
    assert config.value_and_source(name) == (KNOBS[name].default, "the default")


def test_a_processor_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_TARGET", "foo")
    with pytest.raises(OptionError, match=r"^environment variable TORCH_TILE_TARGET expected host, .*, got 'foo'"):
        torch.compile(lambda x: x + 1, backend="tile")
    with pytest.raises(OptionError, match=r"^option 'target' expected host, .*, got 'bar'"):
        torch.compile(lambda x: x + 1, backend="tile", options={"target": "bar"})


def test_an_empty_mode() -> None:
    with pytest.raises(OptionError, match=r"mode expected one of default, .*, or None, got ''"):
        torch.compile(lambda x: x + 1, backend="tile", mode="")


@pytest.mark.parametrize("name", ["cudagraphs", "triton.cudagraphs"])
def test_cudagraphs_on_the_cpu(name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_said", set())
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        for _ in range(2):
            torch._dynamo.reset()
            torch.compile(lambda x: x + 1, backend="tile", options={name: True})(torch.ones(3))
    assert [record.getMessage() for record in caplog.records] == [
        "option 'cudagraphs' has no effect on graphs whose kernels run on the CPU"
    ]


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "report", tmp_path):
        with pytest.raises(OptionError, match="option 'bisect_report' expected a file that can be written, got "):
            torch.compile(lambda x: x + 1, backend="tile", options={"bisect_report": str(path)})


def test_largest_values_are_taken() -> None:
    """What is accepted reaches the compiler: no graph runs in eager mode because of it."""
    numbers = {name: knob for name, knob in KNOBS.items() if knob.minimum is not None and not knob.is_of_process}
    assert len(numbers) > 5
    for name, knob in numbers.items():
        torch._dynamo.reset()
        options = {"strict": True, name: knob.maximum}
        x = torch.randn(4)
        torch.testing.assert_close(
            torch.compile(lambda x: x.sin() + 1, backend="tile", options=options)(x), x.sin() + 1
        )


def test_values_of_unions_are_taken() -> None:
    for options in ({"cpp.simdlen": None}, {"compile_threads": 2}, {"cpu_backend": "cpp"}):
        config.resolve(None, options)
    assert config.resolve(None, {"max_autotune_gemm_backends": "aten"})["matmul_library"] == "aten"


def test_a_relative_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first / "layer", second):
        folder.mkdir(parents=True)
    name = f"cache_{tmp_path.name}"
    for given in ({"cache_dir": name}, {"cache_layers": f"layer_{name}"}):
        settings = config.resolve(None, given)
        for folder in (first, second):
            monkeypatch.chdir(folder)
            found = settings.cache_dir() if "cache_dir" in given else settings.cache_layers()[0]
            assert found == str(first / next(iter(given.values())))


def test_a_pass_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_DISABLE_PASSES", "zz")
    with pytest.raises(OptionError, match=r"^environment variable TORCH_TILE_DISABLE_PASSES expected "):
        torch.compile(lambda x: x + 1, backend="tile")
