"""Settings of Inductor that are made for the process: each is said once, with the way to set it here."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor_config

from tests.compiling import assert_same, run_python, tile_only
from torch_tile import config

pytestmark = tile_only


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_said", set())


def said(caplog: pytest.LogCaptureFixture, *, mode: str | None = None, **options: Any) -> list[str]:
    """Lines about a call of torch.compile and a compiled call."""
    caplog.clear()
    torch.compiler.reset()
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        function = torch.compile(lambda x: x.sin() + 1, backend="tile", mode=mode, options=options or None)
        x = torch.randn(4)
        assert_same(function(x), x.sin() + 1)
    return [record.getMessage() for record in caplog.records]


def a_pass(graph: torch.fx.Graph) -> None:
    pass


NO_EFFECT = "has no effect on backend='tile'"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "max_autotune",
            True,
            f"torch._inductor.config.max_autotune = True {NO_EFFECT}; pass options={{'max_autotune': True}} to "
            "torch.compile, or set torch_tile.config.max_autotune = True",
        ),
        ("freezing", True, "pass options={'freezing': True} to torch.compile, or set torch_tile.config.freezing = "),
        ("triton.cudagraphs", True, "pass options={'triton.cudagraphs': True} to torch.compile, or set "
         "torch_tile.config.cudagraphs = True"),
        ("fx_graph_cache", False, "or set torch_tile.config.cache = False"),
        ("fallback_random", True, "or set torch_tile.config.fallback_random = True"),
        ("max_autotune_gemm_backends", "ATEN", "or set torch_tile.config.matmul_library = 'aten'"),
        ("post_grad_custom_post_pass", a_pass, "pass options={'post_grad_custom_post_pass': a_pass} to torch.compile"),
        ("batch_invariant", True, f"{NO_EFFECT}: products by a library may depend on the batch"),
        ("cpp.threads", 3, f"{NO_EFFECT}: kernels run on torch's threads: call torch.set_num_threads(n)"),
    ],
)  # fmt: skip
def test_said_once(name: str, value: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    with inductor_config.patch({name: value}):
        lines = said(caplog)
        assert len(lines) == 1 and f"torch._inductor.config.{name} = " in lines[0] and text in lines[0]
        assert said(caplog) == []
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"max_autotune": False}, {}),  # the default
        (
            {"comprehensive_padding": False, "cpp_wrapper": True, "epilogue_fusion": False},
            {},
        ),  # accepted without effect
        ({"max_autotune": True}, {"max_autotune": True}),
        ({"max_autotune": True}, {"max_autotune": False}),  # what is asked for here counts
        ({"triton.cudagraphs": True}, {"mode": "reduce-overhead"}),
        ({"force_disable_caches": True, "trace.enabled": False}, {}),  # honoured
    ],
)
def test_nothing_to_say(settings: dict[str, Any], options: Any, caplog: pytest.LogCaptureFixture) -> None:
    with inductor_config.patch(settings):
        assert said(caplog, **options) == []


@pytest.mark.parametrize(
    ("variables", "lines"),
    [
        (
            {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"},
            ["TORCHINDUCTOR_MAX_AUTOTUNE=1", "torch_tile.config.max_autotune = True"],
        ),
        ({"TORCHINDUCTOR_CUDAGRAPHS": "1"}, ["TORCHINDUCTOR_CUDAGRAPHS=1", "torch_tile.config.cudagraphs = True"]),
        ({"TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}, ["TORCHINDUCTOR_FX_GRAPH_CACHE=0", "torch_tile.config.cache = False"]),
        ({"TORCHINDUCTOR_COMPILE_THREADS": "3"}, ["TORCHINDUCTOR_COMPILE_THREADS=3", "torch_tile.config.threads = 3"]),
        ({"TORCHINDUCTOR_MAX_AUTOTUNE": "0", "TORCHINDUCTOR_FREEZING": "0"}, []),
        ({"TORCHINDUCTOR_FREEZING": "1", "TORCH_TILE_FREEZING": "1"}, []),
    ],
)
def test_variables(variables: dict[str, str], lines: list[str]) -> None:
    script = """
        import logging, sys, torch
        logging.basicConfig(format="%(message)s", stream=sys.stdout)
        torch.compile(lambda x: x + 1, backend="tile")(torch.ones(3))
        """
    output = run_python(script, **variables)
    told = [line for line in output.splitlines() if NO_EFFECT in line]
    assert len(told) == bool(lines)
    for each in lines:
        assert each in told[0]


def test_inductor_is_not_imported_for_it() -> None:
    assert (
        run_python(
            """
        import sys, torch, torch_tile
        torch_tile.config.resolve()
        print("torch._inductor" in sys.modules)
        """,
            imports=False,
        ).strip()
        == "False"
    )


def test_torchs_own_switch_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    """torch.use_deterministic_algorithms sets Inductor's option too, in newer versions."""
    torch.use_deterministic_algorithms(True)
    try:
        assert said(caplog) == []
    finally:
        torch.use_deterministic_algorithms(False)
