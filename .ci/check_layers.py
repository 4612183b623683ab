#!/usr/bin/env python3
"""Checks that includes and imports follow the layers of docs/design.md, and names both files where one does not.

Data flows front to back; a file may use only what stands at or before its own place. `LAYERS` says so per folder, or
per file where one file of a folder stands above the others: a file belongs to the longest entry that matches its path,
and may use its own layer and the ones listed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

COMPILER = [
    "compiler/driver",
    "compiler/graph/ir",
    "compiler/analysis",
    "compiler/graph/transforms",
    "compiler/fusion",
    "compiler/tile/ir",
    "compiler/tile/build",
    "compiler/tile/transforms",
    "compiler/codegen",
    "compiler/codegen/common",
    "compiler/codegen/cpu",
    "compiler/codegen/gpu",
    "compiler/loader",
    "compiler/target",
    "compiler/triton",
]
PLAIN = ["support", "artifact"]
# Without torch: the runner's core uses them too.
PLAIN_LAUNCH = [
    "runtime/launch/cpu/CpuGrid",
    "runtime/launch/cpu/FloatEnvironment",
    "runtime/launch/cpu/KernelRange",
]
LAUNCH = [*PLAIN_LAUNCH, "runtime/launch", "runtime/launch/cpu", "runtime/launch/gpu"]

# Folder (or file without its ending) of csrc -> those it may include beside itself.
LAYERS: dict[str, list[str]] = {
    "support": [],
    "artifact": ["support"],
    "compiler": [*PLAIN, *COMPILER],
    "compiler/driver": [*PLAIN, *COMPILER],
    "compiler/graph/ir": ["support"],
    "compiler/analysis": ["compiler/graph/ir"],
    "compiler/graph/transforms": ["support", "compiler/graph/ir", "compiler/analysis"],
    "compiler/fusion": ["support", "compiler/graph/ir", "compiler/analysis", "compiler/target"],
    "compiler/tile/ir": ["support"],
    "compiler/target": [],
    "compiler/tile/build": [
        *PLAIN,
        "compiler/target",
        "compiler/graph/ir",
        "compiler/analysis",
        "compiler/fusion",
        "compiler/tile/ir",
    ],
    "compiler/tile/transforms": ["support", "compiler/tile/ir"],
    "compiler/codegen": [*PLAIN, "compiler/tile/ir", "compiler/codegen/cpu", "compiler/codegen/gpu"],
    "compiler/codegen/common": [*PLAIN, "compiler/tile/ir", "compiler/codegen"],
    "compiler/codegen/cpu": [*PLAIN, "compiler/tile/ir", "compiler/codegen", "compiler/codegen/common"],
    "compiler/codegen/gpu": [*PLAIN, "compiler/tile/ir", "compiler/codegen", "compiler/codegen/common"],
    "compiler/loader": PLAIN,
    "compiler/triton": ["support", "compiler/tile/ir"],
    "tools": [*PLAIN, "compiler", *COMPILER],
    "runtime": PLAIN,
    "runtime/fx": ["support", "runtime"],
    "runtime/launch": [*PLAIN, "runtime", "runtime/launch/cpu", "runtime/launch/gpu"],
    "runtime/launch/cpu": [*PLAIN, "runtime", "runtime/launch", *PLAIN_LAUNCH],
    "runtime/launch/gpu": [*PLAIN, "runtime", "runtime/launch"],
    "runtime/sizes": PLAIN,
    "runtime/link": PLAIN,
    "runtime/package": [*PLAIN, "runtime/sizes"],
    "runtime/model": [*PLAIN, "runtime", *LAUNCH, "runtime/compiler", "runtime/executor", "runtime/package"],
    "runtime/compiler": [*PLAIN, "runtime", *LAUNCH, "runtime/link"],
    "runtime/cache": [*PLAIN, "runtime", "runtime/compiler"],
    "runtime/executor": [*PLAIN, "runtime", *LAUNCH, "runtime/compiler", "runtime/sizes"],
    "runtime/compiler/CompileGraph": [
        *PLAIN,
        "runtime",
        *LAUNCH,
        "runtime/compiler",
        "runtime/cache",
        "runtime/executor",
    ],
    "runtime/python": [
        *PLAIN,
        "runtime",
        *LAUNCH,
        "runtime/cache",
        "runtime/executor",
        "runtime/compiler",
        "runtime/compiler/CompileGraph",
        "runtime/fx",
        "runtime/model",
        "runtime/package",
    ],
    "runner": [*PLAIN, "runtime/package", "runner/include"],
    "runner/include": [],
    "runner/core": [
        *PLAIN,
        "runner",
        "runtime/package",
        "runtime/link",
        *PLAIN_LAUNCH,
    ],
    "runner/torch": [*PLAIN, "runner", "runtime", "runtime/executor", "runtime/model", "runtime/package"],
    "runtime/launch/cpu/CpuGrid": [],
    "runtime/launch/cpu/FloatEnvironment": [],
    "runtime/launch/cpu/KernelRange": PLAIN,
}

# The one header through which the two sides meet.
BORDER = "compiler/c_api.h"

TORCH = ("torch/", "ATen/", "c10/", "pybind11/", "Python.h")
LLVM = ("llvm/", "llvm-c/", "mlir/", "mlir-c/")
# Folder of csrc -> prefixes of outside headers that must not appear there.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "support": TORCH + LLVM,
    "artifact": TORCH + LLVM,
    "compiler": TORCH,
    "tools": TORCH,
    "runtime": LLVM,
    "runtime/link": TORCH + LLVM,
    "runtime/package": TORCH + LLVM,
    "runtime/sizes": TORCH + LLVM,
    "runner": TORCH + LLVM,
    "runner/torch": LLVM,
}

# Part of torch_tile -> parts it may import beside itself.
FOUNDATION = [
    "_C", "cache_artifacts", "code_names", "config", "counters", "disk_cache", "errors", "file_contents", "forks",
    "inductor_options", "inductor_settings", "knobs", "package_file", "repeated_arguments", "remote_cache",
]  # fmt: skip
MIDDLE = ["frontend", "language", "interpreter", "debug"]
PYTHON: dict[str, list[str]] = {
    "_C": [],
    "_build": [],
    "code_names": [],
    "errors": [],
    "counters": [],
    "file_contents": [],
    "forks": [],
    "knobs": ["errors"],
    "package_file": [],
    "repeated_arguments": [],
    "inductor_options": ["errors"],
    "inductor_settings": ["errors", "inductor_options", "knobs"],
    "config": ["errors", "inductor_options", "inductor_settings", "knobs"],
    "disk_cache": ["_C", "config"],
    "cache_artifacts": ["_C", "config", "disk_cache"],
    "remote_cache": ["_C", "config", "counters", "disk_cache"],
    "aot": [*FOUNDATION, "debug", "frontend", "targets", "__init__"],
    "formulas": [],
    "targets": ["_C", "config", "errors"],
    "frontend": [*FOUNDATION, "debug", "formulas", "language", "targets", "triton"],
    "language": [*FOUNDATION, "interpreter", "formulas", "targets", "triton_compat", "__init__"],
    "interpreter": FOUNDATION,
    "debug": [*FOUNDATION, "frontend"],
    "triton_compat": ["errors", "language", "targets"],
    "triton": [*FOUNDATION, "formulas"],
    "backend": [*FOUNDATION, *MIDDLE],
    "cli": [*FOUNDATION, *MIDDLE, "backend", "cli_bisect", "cli_cache", "cli_doctor", "cli_explain", "cli_report"],
    "cli_bisect": [*FOUNDATION, "debug", "frontend"],
    "cli_cache": FOUNDATION,
    "cli_doctor": [*FOUNDATION, "_build", "cli_cache"],
    "cli_explain": [*FOUNDATION, *MIDDLE],
    "cli_report": [*FOUNDATION, *MIDDLE],
    "tile_compile": [],
    "__main__": ["cli"],
    "__init__": ["_build", *FOUNDATION, *MIDDLE, "aot", "backend", "triton_compat"],
}
# Inductor's compiler: importing it costs over a second and is never needed.
FORBIDDEN_MODULES = (
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch._inductor.scheduler",
    "torch._inductor.codegen",
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path: str, layers: Mapping[str, Any]) -> str | None:
    """The longest entry of `layers` that holds `path`: the file itself without its ending, or a folder."""
    parts = path.rsplit(".", 1)[0].split("/")
    for end in range(len(parts), 0, -1):
        if "/".join(parts[:end]) in layers:
            return "/".join(parts[:end])
    return None


def check_includes(csrc: Path) -> list[str]:
    errors = []
    for file in sorted(p for p in csrc.rglob("*") if p.suffix in {".h", ".cpp", ".td", ".def"}):
        name = file.relative_to(csrc).as_posix()
        layer = layer_of(name, LAYERS)
        if layer is None:
            errors.append(f"csrc/{name}: expected a folder listed in .ci/check_layers.py")
            continue
        outside = FORBIDDEN[layer_of(name, FORBIDDEN) or "support"]
        for _, header in INCLUDE.findall(file.read_text(encoding="utf-8")):
            if header.startswith(outside):
                errors.append(f"csrc/{name}: must not include <{header}>: {layer} is on the other side of the border")
                continue
            beside = (file.parent / header).resolve()
            target = beside.relative_to(csrc).as_posix() if beside.is_file() and csrc in beside.parents else header
            used = layer_of(target, LAYERS)
            if used is None or used == layer or used in LAYERS[layer] or target == BORDER:
                continue
            errors.append(
                f"csrc/{name}: must not include csrc/{target}: {layer} may use {', '.join(LAYERS[layer]) or 'nothing'}"
            )
    return errors


def imported_modules(tree: ast.AST, package: list[str]) -> list[str]:
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from torch_tile import config` names a part of the package, `from .config import x` a thing in one.
            modules += (
                [f"{module}.{alias.name}" for alias in node.names]
                if module in ("torch_tile", "torch._inductor")
                else [module]
            )
    return modules


def check_imports(package: Path) -> list[str]:
    errors = []
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        part = name.parts[0].removesuffix(".py")
        if part not in PYTHON:
            errors.append(f"torch_tile/{name}: expected a part listed in .ci/check_layers.py")
            continue
        for module in imported_modules(ast.parse(file.read_text(encoding="utf-8")), ["torch_tile", *name.parts[:-1]]):
            if module.startswith(FORBIDDEN_MODULES):
                errors.append(f"torch_tile/{name}: must not import {module}: Inductor's compiler")
            if not module.startswith("torch_tile."):
                continue
            used = module.split(".")[1]
            if used in PYTHON and used != part and used not in PYTHON[part]:
                target = f"{used}.py" if (package / f"{used}.py").exists() else used
                allowed = ", ".join(PYTHON[part]) or "nothing"
                errors.append(f"torch_tile/{name}: must not import torch_tile/{target}: {part} may use {allowed}")
    return errors


def main(root: Path) -> int:
    errors = check_includes(root / "csrc") + check_imports(root / "torch_tile")
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
