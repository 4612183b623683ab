"""The programs that are timed on GPUs: small ones run on the CPU, and equal themselves in float64."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SUITES = ["gpu_physics", "gpu_images", "gpu_signals", "gpu_losses", "gpu_layers", "gpu_weights", "gpu_linear_algebra"]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def _small(case: Any) -> Any:
    """Arguments with a 64th of the size that a case leaves open."""
    [size] = case.make.__defaults__
    return case.make(max(size // 64, 2))


@pytest.mark.parametrize("suite", SUITES)
def test_programs_equal_float64(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from reference import differs, flatten, in_double

    monkeypatch.setattr(importlib.import_module("suites.inputs"), "DEVICE", "cpu")
    wrong = {}
    for case in importlib.import_module(f"suites.{suite}").CASES:
        torch.manual_seed(0)
        with torch.no_grad():
            arguments = _small(case)
            expected = list(flatten(case.call(case.function, in_double(arguments))))
            result = list(flatten(case.call(case.function, arguments)))
            note = case.check(arguments, result) if case.check else differs(result, expected, case.rtol, case.atol)
        if note:
            wrong[case.name] = note
    assert not wrong


def test_programs_are_registered_and_have_names_of_their_own() -> None:
    run = importlib.import_module("run")
    assert set(SUITES) <= set(run.GPU_SUITES)
    names = [case.name for suite in SUITES for case in importlib.import_module(f"suites.{suite}").CASES]
    assert len(names) == len(set(names))
