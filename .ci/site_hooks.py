"""MkDocs hooks: pages of the site that are kept elsewhere in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# File of the repository -> its page.
PAGES = {
    "benchmarks/README.md": "performance.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}


def _moved(text: str, source: str) -> str:
    """The text with its links as they are seen from docs/: to pages of the site; other files are named only."""

    def link(match: re.Match[str]) -> str:
        is_image, label, target = match.group(1), match.group(2), match.group(3)
        if target.startswith(("http", "#")):
            return match.group(0)
        path, _, anchor = target.partition("#")
        found = (ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT).as_posix()
        if found.endswith(".svg"):
            return f"{is_image}[{label}](images/{Path(found).name})"
        page = PAGES.get(found, found.removeprefix("docs/") if found.startswith("docs/") else "")
        if page.endswith(".md"):
            return f"[{label}]({page}{'#' if anchor else ''}{anchor})"
        return label

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_moved(text, source)))
    for picture in sorted((ROOT / "benchmarks" / "results").glob("*.svg")):
        files.append(File.generated(config, f"images/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files outside of docs/, which a checkout follows, lead to their pages. The table of options has two
    columns, which fit a narrow screen."""
    above = "../" * page.file.src_uri.count("/")
    for source, target in PAGES.items():
        markdown = markdown.replace(f"]({above}../{source}", f"]({above}{target}")
    if page.file.src_uri != "generated/config.md":
        return markdown
    lines = markdown.replace("# Knobs", "# Options").splitlines()
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 5:
            continue
        name, kind, default, environment, doc = cells
        if name == "name":
            lines[i] = "| option | effect, environment variable |"
        elif set(name) == {"-"}:
            lines[i] = "|---|---|"
        else:
            lines[i] = f"| {name}<br>{kind}, {default or 'empty'} | {doc}<br>`{environment.replace(', ', '` `')}` |"
    return "\n".join(lines)
