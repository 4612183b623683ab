"""The Python blocks of the pages run as they stand, those of a page one after the other."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Pages whose blocks need a GPU, a package made before, or run as a test of their own.
LEFT_OUT = {"guides/gpu.md", "guides/aot.md", "language.md"}
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for folder in (".", "start", "guides")
    for path in (DOCS / folder).glob("*.md")
    if "```python" in path.read_text(encoding="utf-8")
)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in LEFT_OUT])
def test_blocks(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    if "import triton" in text:
        pytest.importorskip("triton")
        if torch.cuda.is_available():
            pytest.skip("Triton's CPU backend is inactive beside a GPU")
    torch.compiler.reset()
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf-8")
    before = {
        name: getattr(torch._dynamo.config, name)
        for name in ("capture_dynamic_output_shape_ops", "capture_scalar_outputs")
    }
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        for name, value in before.items():
            setattr(torch._dynamo.config, name, value)
