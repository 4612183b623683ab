"""Options and modes: what each does, and that what cannot be done is refused when torch.compile is called."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from tests.compiling import ROOT, assert_same, compiled, count, fresh, run_python, tile_only
from torch_tile import config, inductor_options
from torch_tile.errors import OptionError
from torch_tile.knobs import KNOBS

pytestmark = tile_only


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are said once a process are said in each test."""
    monkeypatch.setattr(config, "_said", set())


def refused(options: dict[str, Any] | None = None, **arguments: Any) -> str:
    """The text with which torch.compile itself refuses."""
    with pytest.raises(OptionError) as caught:
        torch.compile(lambda x: x + 1, backend="tile", options=options, **arguments)
    return str(caught.value)


def resolved(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> tuple[dict[str, Any], list[str]]:
    """Knobs that differ from a call without options, and what is said."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        settings = config.resolve(None, options)
    plain = config.resolve()
    return {k: v for k, v in settings.items() if v != plain[k]}, [r.getMessage() for r in caplog.records]


def a_pass(graph: torch.fx.Graph) -> None:
    pass


def test_containers_of_another_kind() -> None:
    cases: list[tuple[Any, str]] = [
        ({5: True}, "options expected names as keys, got int 5"),
        (5, "options expected a dict of names and values, got int 5"),
        ([("fusion", True)], "options expected a dict of names and values, got list"),
    ]
    for options, text in cases:
        with pytest.raises(OptionError, match=text):
            config.resolve(None, options)
    with pytest.raises(OptionError, match=r"mode expected one of default, .* got 5"):
        config.resolve(5)  # type: ignore[arg-type]


def test_folders_of_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", "~/cache")
    assert config.resolve().cache_dir() == str(tmp_path / "cache")
    missing = tmp_path / "missing"
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        for _ in range(2):
            config.resolve(None, {"cache_layers": str(missing)}).cache_layers()
    assert [record.getMessage() for record in caplog.records] == [
        f"cache_layers (TORCH_TILE_CACHE_LAYERS) names {missing}, which is no folder; it is not used"
    ]


NO_EFFECT = "is accepted and has no effect"
# Option, value, and what becomes of it: knobs that it sets, a part of the line that is said, or of the refusal.
TABLE: list[tuple[str, Any, dict[str, Any] | str]] = [
    ("triton.cudagraphs", True, {"cudagraphs": True}),
    ("max_autotune", True, {"max_autotune": True}),
    ("max_autotune_gemm", True, {"max_autotune": True}),
    ("max_autotune_gemm_backends", "ATEN", {"matmul_library": "aten"}),
    ("max_autotune_gemm_backends", "ATEN,CPP", f"{NO_EFFECT}: libraries are chosen by matmul_library"),
    ("max_autotune_pointwise", True, {"autotune_schedules": True}),
    ("coordinate_descent_tuning", True, {"autotune_schedules": True}),
    ("epilogue_fusion", True, f"{NO_EFFECT}: fusion is decided by cost"),
    ("shape_padding", False, {"shape_padding": False}),
    ("trace.enabled", True, {"debug": True}),
    ("trace.graph_diagram", True, {"debug": True}),
    ("trace.output_code", True, f"{NO_EFFECT}: with trace.enabled all stages"),
    ("cpp_wrapper", True, f"{NO_EFFECT}: a call runs in C++"),
    ("fallback_random", True, {"fallback_random": True}),
    ("deterministic", True, {"deterministic": True}),
    ("freezing", True, {"freezing": True}),
    ("debug", True, {"debug": True}),
    ("emulate_precision_casts", True, {"emulate_precision_casts": True}),
    ("nan_asserts", True, {"nan_asserts": True}),
    ("force_disable_caches", True, {"cache": False}),
    ("fx_graph_cache", False, {"cache": False}),
    ("compile_threads", 3, {"threads": 3}),
    ("triton.unique_kernel_names", True, f"{NO_EFFECT}: kernels are named"),
    ("triton.max_tiles", 2, f"{NO_EFFECT}: steers Triton code"),
    ("size_asserts", False, f"{NO_EFFECT}: sizes, strides and dtypes of inputs are checked"),
    ("allow_buffer_reuse", False, f"{NO_EFFECT}: memory is planned"),
    ("inplace_buffers", False, f"{NO_EFFECT}: memory is planned"),
    ("conv_1x1_as_mm", True, f"{NO_EFFECT}: convolutions go to the library"),
    ("layout_optimization", False, f"{NO_EFFECT}: layouts of convolutions"),
    ("permute_fusion", True, f"{NO_EFFECT}: permuted operands"),
    ("group_fusion", True, f"{NO_EFFECT}: operators side by side"),
    ("batch_fusion", False, f"{NO_EFFECT}: operators side by side"),
    ("aggressive_fusion", True, f"{NO_EFFECT}: steers passes and code generation of Inductor"),
    ("pre_grad_custom_pass", a_pass, {"pre_grad_pass": a_pass}),
    ("joint_custom_pre_pass", a_pass, {"joint_pass": a_pass}),
    ("joint_custom_post_pass", a_pass, {"joint_post_pass": a_pass}),
    ("post_grad_custom_pre_pass", a_pass, {"post_grad_pass": a_pass}),
    ("post_grad_custom_post_pass", a_pass, {"post_grad_post_pass": a_pass}),
    ("cpp.threads", -1, {}),
    ("cpp.threads", 4, "refused: kernels run on torch's threads: call torch.set_num_threads"),
    ("cpp.simdlen", 256, "refused: vectors are as wide as the processor's"),
    ("triton.cudagraph_trees", False, "refused: recordings are torch's CUDA graph trees"),
    ("triton.cudagraph_or_error", True, "refused: recordings are torch's CUDA graph trees"),
    ("aot_inductor.package", True, "refused: is about packages ahead of time"),
    ("aot_inductor.package", False, {}),
    ("implicit_fallbacks", False, "refused: operators without a kernel are calls outside"),
    ("batch_invariant", True, "refused: products by a library"),
    ("disabled_passes", "reinplace", "refused: names passes of Inductor"),
    ("_pre_fusion_custom_pass", a_pass, "refused: works on nodes of Inductor's scheduler"),
    ("triton.inject_relu_bug_TESTING_ONLY", "accuracy", "refused: is for tests of Inductor"),
    ("max_autotune", "yes", "expected bool, got 'yes'"),
    ("comprehensive_padding", 1, "expected bool, as in Inductor, got 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "outcome"), TABLE, ids=[f"{n}={v!r:.12}" for n, v, _ in TABLE])
def test_options_of_inductor(
    name: str, value: Any, outcome: dict[str, Any] | str, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(outcome, dict):
        assert resolved({name: value}, caplog) == (outcome, [])
    elif outcome.startswith(NO_EFFECT):
        changed, said = resolved({name: value}, caplog)
        assert not changed
        assert len(said) == 1 and name in said[0] and outcome in said[0], said
        assert resolved({name: value}, caplog)[1] == [], "said again"
    else:
        text = refused({name: value})
        assert name in text and outcome in text, text


def test_every_option_of_inductor_has_a_fate() -> None:
    """Nothing that torch lists is unknown, and its own defaults ask for nothing that is refused."""
    known = torch._inductor.config.get_config_copy()
    for name in torch._inductor.list_options():
        if name == "TYPE_CHECKING" or name in KNOBS:
            continue
        fate = inductor_options.fate_of(name)
        assert fate is not None and fate.text, name
        if fate.verdict == "refused":
            assert inductor_options.translate(name, known[name], lambda line: None) == {}, name


def test_the_page_lists_every_row() -> None:
    page = inductor_options.page()
    assert len(inductor_options.ROWS) >= 20
    assert all(f"| `{name}` |" in page for name in inductor_options.ROWS)
    assert page + "\n" == (ROOT / "docs/generated/inductor-options.md").read_text()


def test_unknown_names_get_the_nearest_known() -> None:
    assert "unknown option 'fusoin'; the nearest known: 'fusion'" in refused({"fusoin": True})
    assert "the nearest known: 'max_autotune_pointwise'" in refused({"max_autotune_pointwize": True})
    text = refused({"no_such_thing_at_all": 1})
    assert "torch_tile.list_options()" in text and "nearest" not in text


def test_refused_when_torch_compile_is_called() -> None:
    assert "expected int from 0 to 1024, got -1" in refused({"threads": -1})
    text = refused({"target": "foo"})
    assert "expected host, x86-64, " in text or "expected host or" in text, text
    assert "got 'foo'" in text
    assert "skylake" in refused({"target": "skylkae"})
    assert "expected one of auto, aten, onednn, got 'mkl'" in refused({"matmul_library": "mkl"})
    assert "got 'maybe'" in refused({"fusion": "maybe"})
    assert "unknown mode 'max-autotun'; the nearest is 'max-autotune'" in refused(mode="max-autotun")
    assert "torch_tile.aot" in refused({"use_aoti": True})
    assert "buffer_limit_bytes" in refused({"buffer_limit_bytes": 5})
    assert "ask for different values of 'cudagraphs'" in refused({"cudagraphs": False, "triton.cudagraphs": True})
    with pytest.raises(OptionError, match="fusoin"):

        @torch.compile(backend="tile", options={"fusoin": True})
        def function(x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(OptionError, match="fusoin"):
        torch.nn.Linear(2, 2).compile(backend="tile", options={"fusoin": True})
    torch.compile(lambda x: x, backend="eager", options={"fusoin": True})  # not ours to judge


def test_a_processor_with_more_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_tile import _C, targets

    targets.check_processor.cache_clear()
    monkeypatch.setattr(_C, "describe_processor", lambda name: (["x86-64", name], ["avx512f", "amx-tile"]))
    assert "'sapphirerapids' has instructions that this processor lacks: avx512f, amx-tile" in refused(
        {"target": "sapphirerapids"}
    )
    targets.check_processor.cache_clear()


def test_a_target_that_is_narrower_runs() -> None:
    x = torch.randn(100)
    assert_same(compiled(lambda x: torch.tanh(x) * 2, target="x86-64-v2")(x), torch.tanh(x) * 2)


def test_first_call_of_a_process_is_refused_by_torch_compile() -> None:
    """The check is there before the backend is imported, by name and as an object, whatever is imported first."""
    for start, backends in (("", '["tile"]'), ("from torch_tile.backend import tile", '[tile, "tile"]')):
        run_python(
            f"""
            {start or "pass"}
            import torch
            for backend in {backends}:
                for options in ({{"fusoin": True}}, {{"use_aoti": True}}):
                    try:
                        torch.compile(lambda x: x, backend=backend, options=options)
                    except ValueError as error:
                        assert type(error).__name__ == "OptionError", error
                    else:
                        raise SystemExit("not refused")
        """,
            imports=False,
        )


def test_options_are_still_checked_where_torch_offers_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._dynamo, "optimize", torch._dynamo.optimize.__wrapped__)
    function = torch.compile(
        lambda x: x + 1, backend=types.MethodType(type(_tile()).__call__, _tile()), options={"a": 1}
    )
    with pytest.raises(Exception, match="unknown option 'a'"):
        function(torch.ones(2))


def _tile() -> Any:
    from torch_tile.backend import tile

    return tile


# Modes


def test_lists() -> None:
    assert "fusion" in torch_tile.list_options() and "buffer_limit_bytes" not in torch_tile.list_options()
    modes = torch_tile.list_mode_options()
    assert set(modes) == set(torch._inductor.list_mode_options())
    assert modes["default"] == {}
    assert torch_tile.list_mode_options("reduce-overhead", dynamic=True) == {"cudagraphs": True}
    assert torch_tile.list_mode_options("max-autotune") == {"max_autotune": True, "cudagraphs": True}
    with pytest.raises(OptionError, match=r"unknown mode 'fastest'.*reduce-overhead"):
        torch_tile.list_mode_options("fastest")
    with pytest.raises(OptionError, match="unknown mode 3; known modes: default"):
        torch_tile.list_mode_options(3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unknown option 'fusio'; the nearest known: 'fusion'"):
        torch_tile.config.get("fusio")


@pytest.mark.parametrize("mode", config.MODES)
def test_modes_set_what_they_list(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        settings = config.resolve(mode)
        for name, value in torch_tile.list_mode_options(mode).items():
            assert settings[name] == value
        x = torch.randn(5, 6)
        function = torch.compile(lambda x: (x @ x.T).relu() + 1, backend="tile", mode=mode)
        with torch.no_grad():
            assert_same(function(x), (x @ x.T).relu() + 1)
    assert not [r.getMessage() for r in caplog.records if "nothing" in r.getMessage()]


def test_max_autotune_times_each_library(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_tile.frontend import time_libraries
    from torch_tile.frontend.products import fuse

    # A kernel that happens to be faster than both libraries would leave no product to time them with.
    monkeypatch.setattr(fuse, "candidates_for", lambda *args: [])
    asked: list[str] = []
    fastest = time_libraries.fastest

    def spy(*args: Any) -> Any:
        *rest, compile_with = args
        return fastest(*rest, lambda library: (asked.append(library), compile_with(library))[1])

    monkeypatch.setattr(time_libraries, "fastest", spy)
    x, w = torch.randn(64, 96), torch.randn(96, 80)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    with torch.no_grad(), caplog.at_level(logging.INFO, logger="torch_tile"):
        function = torch.compile(lambda x, w: torch.relu(x @ w), backend="tile", mode="max-autotune-no-cudagraphs")
        assert_same(function(x, w), torch.relu(x @ w), rtol=1e-5, atol=1e-5)
    assert asked == ["aten", "onednn"]
    assert any("max_autotune: aten" in r.getMessage() and "onednn" in r.getMessage() for r in caplog.records)
    assert torch.equal(torch.get_rng_state(), state), "the user's random numbers are used up"
    fresh()
    asked.clear()
    compiled(lambda x: x * 2, max_autotune=True)(x)
    assert not asked, "there is no product"


# For the process


def test_attributes_of_config() -> None:
    try:
        config.fusion = False
        assert config.get("fusion") is False and config.fusion is False
        fresh()
        x = torch.randn(7, 9)
        torch.compile(lambda x: (x * 2).exp() + x.sum(-1, keepdim=True), backend="tile")(x)
        assert count("kernels") > 1
    finally:
        config._values.clear()
    with pytest.raises(OptionError, match="unknown option 'fuson'; the nearest known: 'fusion'"):
        config.fuson = False
    with pytest.raises(AttributeError):
        config.fuson  # noqa: B018


def test_names_of_inductor_are_not_those_of_the_process() -> None:
    understood = "is a name of Inductor's, understood in torch.compile(options=...) alone; "
    for name, fate in inductor_options.ROWS.items():
        here = "here it is" if fate.verdict == "sets" else "there is none of ours for it:"
        with pytest.raises(OptionError, match=re.escape(f"{name!r} {understood}{here} {fate.text}")):
            config.set(name, True)
    with pytest.raises(OptionError, match=r"'triton.cudagraphs' is .*; here it is `cudagraphs`$"):
        config.set("triton.cudagraphs", True)
    with pytest.raises(OptionError, match=r"'epilogue_fusion' is .*; there is none of ours for it: fusion is decided"):
        config.epilogue_fusion = False


def test_environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("TORCH_TILE_FREEZNG", "1")
    monkeypatch.setenv("TORCH_TILE_SOMETHING_ELSE", "1")
    monkeypatch.setenv("TILE_COMPILE_DEBUG", "0")
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        config.resolve()
        config.resolve()
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 3, said
    assert any(
        "TORCH_TILE_FREEZNG is not known and has no effect; the nearest known is TORCH_TILE_FREEZING" in s for s in said
    )
    assert any(s == "environment variable TILE_COMPILE_DEBUG has a new name: TORCH_TILE_DEBUG" for s in said)
    monkeypatch.setenv("TILE_COMPILE_DEBUG", "1")
    assert config.get("debug") is True
    monkeypatch.setenv("TORCH_TILE_DEBUG", "off")
    assert config.get("debug") is False


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("TORCH_TILE_FREEZING", "maybe", "expected one of 1, true, yes, on, 0, false, no, off, got 'maybe'"),
        ("TORCH_TILE_COMPILE_THREADS", "many", "expected int from 0 to 1024, got 'many'"),
        ("TORCH_TILE_COMPILE_THREADS", "-2", "expected int from 0 to 1024, got -2"),
        ("TORCH_TILE_MATMUL_LIBRARY", "mkl", "expected one of auto, aten, onednn, got 'mkl'"),
    ],
)
def test_wrong_values_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(variable, value)
    text = refused()
    assert variable in text and expected in text, text


PROGRAM = """
import torch, torch_tile, torch_tile.language as tl

@torch_tile.jit
def double(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

def f(x, w):
    return torch.softmax(x @ w, -1).sum()

def train(**options):
    w = torch.ones(7, 9, requires_grad=True)
    torch.compile(f, backend="tile", options=options)(torch.ones(5, 7), w).backward()

if {is_by_option}:
    train(force_disable_caches=True)
    torch.compiler.reset()
    torch.compiler.config.force_disable_caches = True
train()
x, y = torch.ones(8), torch.empty(8)
double[(1,)](x, y, 8, B=8)
assert y.sum() == 16
"""


def test_disabled_caches_stop_all_of_ours(tmp_path: Path) -> None:
    """Graphs, kernels, AOTAutograd's entries and kernels of the tile language, by each of torch's names for it."""

    def kinds(name: str, is_by_option: bool, **environment: str) -> set[str]:
        folder, path = tmp_path / name, tmp_path / f"{name}.py"
        path.write_text(PROGRAM.format(is_by_option=is_by_option))
        run_python(f"import runpy; runpy.run_path({str(path)!r})", TORCH_TILE_CACHE_DIR=str(folder), **environment)
        return {file.relative_to(folder).parts[0] for file in folder.rglob("*") if file.is_file()}

    assert kinds("on", False) >= {"graphs", "kernels", "autograd", "language"}
    assert not kinds("variable", False, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    assert not kinds("option", True)


# Options that check


def test_nan_asserts() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, torch.log(x)

    function = compiled(f, nan_asserts=True)
    assert_same(function(torch.ones(3)), f(torch.ones(3)))
    function(torch.tensor([float("nan"), 1.0, 1.0]))  # what comes in may go out
    with pytest.raises(AssertionError, match=r"nan_asserts: result 1 of graph \S+ \(inference\) holds NaN or infinity"):
        function(torch.tensor([-1.0, 1.0, 1.0]))
    w = torch.zeros(3, requires_grad=True)
    loss = compiled(lambda w: (w.abs() + 0).sqrt().sum(), nan_asserts=True)(w)
    with pytest.raises(AssertionError, match=r"\(backward\)"):
        loss.backward()


# deterministic


def _index_put(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return x.index_put((i,), v, accumulate=True)


@pytest.fixture
def by_torch() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def _probe(seen: list[bool]) -> Callable[[torch.Tensor], torch.Tensor]:
    def probe(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return x.clone()

    return probe


def test_deterministic_calls_outside_under_torchs_switch() -> None:
    seen: list[bool] = []
    with torch.library._scoped_library("tile_options", "FRAGMENT") as library:
        library.define("probe(Tensor x) -> Tensor")
        library.impl("probe", _probe(seen), "CPU")
        library.impl("probe", lambda x: torch.empty_like(x), "Meta")
        function = compiled(lambda x: torch.ops.tile_options.probe(x * 2) + 1, deterministic=True)
        assert_same(function(torch.ones(3)), torch.full((3,), 3.0))
        assert seen == [True] and not torch.are_deterministic_algorithms_enabled()
        fresh()
        function = compiled(lambda x: torch.ops.tile_options.probe(x * 2) + 1)
        function(torch.ones(3))
        assert seen == [True, False]


def _unpool(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_unpool1d(x, i, 2) + 1


def _put(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1, 6).put(i, x) + 1


@pytest.mark.parametrize("function", [_unpool, _put])
def test_refused_by_torch_is_refused_here(function: Callable[..., Any]) -> None:
    """By the option and by torch's switch."""
    x, i = torch.ones(1, 3), torch.tensor([[0, 2, 4]])
    assert_same(compiled(function)(x, i), function(x, i))
    message = "does not have a deterministic implementation"
    fresh()
    with pytest.raises(RuntimeError, match=message):
        compiled(function, deterministic=True)(x, i)
    assert not torch.are_deterministic_algorithms_enabled()
    fresh()
    torch.use_deterministic_algorithms(True)
    try:
        for called in (function, compiled(function)):
            with pytest.raises(RuntimeError, match=message):
                called(x, i)
    finally:
        torch.use_deterministic_algorithms(False)


def test_torchs_own_switch_is_honoured(by_torch: None) -> None:
    i, v = torch.randint(0, 50, (20000,)), torch.randn(20000)
    function = compiled(_index_put)
    first = function(torch.zeros(50), i, v)
    assert_same(first, _index_put(torch.zeros(50), i, v), rtol=1e-4, atol=1e-4)
    for _ in range(5):
        assert torch.equal(function(torch.zeros(50), i, v), first)


def test_deterministic_bits_do_not_vary() -> None:
    i, v = torch.randint(0, 50, (20000,)), torch.randn(20000)
    function = compiled(_index_put, deterministic=True)
    first = function(torch.zeros(50), i, v)
    assert all(torch.equal(function(torch.zeros(50), i, v), first) for _ in range(5))
    assert_same(first, _index_put(torch.zeros(50), i, v), rtol=1e-4, atol=1e-4)
