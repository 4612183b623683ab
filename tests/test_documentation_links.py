"""Links between files of the repository lead somewhere: a reader of a checkout follows them without the site."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [page for page in listed.split() if not page.startswith("LICENSES/")]


@pytest.mark.parametrize("page", _pages())
def test_links(page: str) -> None:
    code = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)  # `kernel[grid](...)` is no link
    text = code.sub("", (ROOT / page).read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in LINK.findall(text) if not target.startswith(("http", "mailto"))]
    dead = [target for target in targets if target and not (ROOT / page).parent.joinpath(target).exists()]
    assert not dead, f"{page} names files that do not exist: {dead}"
