"""Every example runs, and prints its last line."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

from tests.language.conftest import has_compiler

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXPECTED = {
    "inference": r"tile: +\d+\.\d\d ms",
    "training": r"loss at the end: 0\.\d+",
    "dynamic_shapes": r"dynamic=True: 1 graphs for 4 batch sizes",
    "freezing_and_serving": r"40 of 40 answers equal eager mode's\nafter a changed parameter: right",
    "tile_kernel": r"inside torch\.compile: right",
    "triton_kernel": r"inside torch\.compile: right",
    "see_inside": r"1 graph \(inference\)(.|\n)*softmax(.|\n)*fallbacks: 0",
}


def test_every_example_is_listed() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == EXPECTED.keys()
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in readme
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "triton_kernel":
        pytest.importorskip("triton")
    if name.endswith("_kernel") and not has_compiler():
        pytest.skip("this build has no launcher for single kernels")
    if name == "triton_kernel" and torch.cuda.is_available():
        pytest.skip("Triton's CPU backend is inactive beside a GPU")
    import torch_tile

    torch.compiler.reset()
    torch_tile.counters.clear()
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert re.search(EXPECTED[name], capsys.readouterr().out)
    assert torch_tile.counters["fallbacks"] == 0


def test_puzzles(capsys: pytest.CaptureFixture[str]) -> None:
    if not has_compiler():
        pytest.skip("this build has no launcher for single kernels")
    assert "(puzzles)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    runpy.run_path(str(EXAMPLES / "puzzles" / "solve.py"), run_name="__main__")
    assert "12 of 12 puzzles solved" in capsys.readouterr().out
