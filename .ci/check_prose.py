#!/usr/bin/env python3
"""Checks that lines of prose are at most 100 characters long. Tables, code and generated pages are exempt."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 100
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "examples/README.md")


def long_lines(file: Path) -> list[str]:
    found, is_code = [], False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if len(line) > LONGEST and not (is_code or is_fence or line.startswith("|")):
            found.append(f"{file.relative_to(ROOT)}:{number}: {len(line)} characters, expected at most {LONGEST}")
    return found


def main() -> int:
    files = [ROOT / page for page in PAGES]
    files += [file for file in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in file.parts]
    errors = [error for file in files for error in long_lines(file)]
    print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
