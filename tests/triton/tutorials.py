"""Triton's tutorials, found at test time: a checkout that TORCH_TILE_TRITON_SOURCE names, else downloaded for the
installed version. Nothing of them is kept in this repository.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import types
import urllib.request
from pathlib import Path
from typing import Any

import pytest

URL = "https://raw.githubusercontent.com/triton-lang/triton/{version}/python/tutorials/{name}.py"


def _download(name: str, folder: Path) -> str:
    import triton

    for version in (f"v{triton.__version__}", "main"):
        path = folder / f"{version}-{name}.py"
        if path.exists():
            return path.read_text()
        try:
            with urllib.request.urlopen(URL.format(version=version, name=name), timeout=10) as answer:
                text: str = answer.read().decode()
        except OSError as error:
            reason = str(error)
            continue
        path.write_text(text)
        return text
    pytest.skip(
        f"tutorial {name} cannot be downloaded ({reason}); TORCH_TILE_TRITON_SOURCE can name a checkout of Triton"
    )


def source_of(name: str, config: pytest.Config) -> str:
    checkout = os.environ.get("TORCH_TILE_TRITON_SOURCE")
    if checkout:
        return (Path(checkout) / "python" / "tutorials" / f"{name}.py").read_text()
    cache = getattr(config, "cache", None)
    if cache is None:
        pytest.skip("pytest runs without its cache, and TORCH_TILE_TRITON_SOURCE is not set")
    return _download(name, cache.mkdir("triton_tutorials"))


def definitions(source: str, functions: tuple[str, ...]) -> str:
    """The source without what it runs: statements that call `functions`, print, measure or compare, and tests, are
    blank lines."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        if isinstance(statement, (ast.ClassDef, ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.FunctionDef):
            if statement.name.startswith(("test_", "bench")):
                start = min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
                lines[start - 1 : statement.end_lineno] = [""] * ((statement.end_lineno or start) - start + 1)
            continue
        called = {
            call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            for call in ast.walk(statement)
            if isinstance(call, ast.Call)
        }
        runs = isinstance(statement, (ast.For, ast.Assert, ast.Expr))
        if runs or called & {*functions, "print", "run"}:
            for line in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                lines[line] = ""
    return "\n".join(lines) + "\n"


def moved(source: str) -> str:
    """The source with its imports changed, as docs/language.md says."""
    source = re.sub(r"^(\s*)import triton\.language as tl", r"\1import torch_tile.language as tl", source, flags=re.M)
    source = re.sub(r"^(\s*)import triton$", r"\1import torch_tile as triton", source, flags=re.M)
    source = re.sub(r"^(\s*)import triton\.", r"\1import torch_tile.", source, flags=re.M)
    return re.sub(r"^(\s*)from triton\b", r"\1from torch_tile", source, flags=re.M)


def load(source: str, name: str, folder: Path) -> Any:
    """The module that the source makes; what only prints tables may be missing."""
    if importlib.util.find_spec("tabulate") is None:
        sys.modules.setdefault("tabulate", types.ModuleType("tabulate"))
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module
