"""Architectures of tests/models packaged and run from C++, with static and with dynamic batch.

    python -m tests.aot.architectures [--inductor] [--json FILE] [name ...]

Prints for each: whether C++ gives Python's results bit by bit, the largest difference from eager mode, seconds to
package and milliseconds to load. `--inductor` measures the same of AOTInductor (which needs a C++ compiler).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import torch_tile
from tests.aot import runner
from tests.models.architectures import ARCHITECTURES, Architecture


class Tensors(torch.nn.Module):
    """A model that takes tensors by position and gives its main result."""

    def __init__(self, model: torch.nn.Module, names: list[str], others: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.names, self.others = model, names, others

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        output = self.model(**dict(zip(self.names, tensors, strict=True)), **self.others)
        for name in ("logits", "last_hidden_state", "logits_per_image"):
            if getattr(output, name, None) is not None:
                result: torch.Tensor = getattr(output, name)
                return result
        raise AssertionError(f"{type(output).__name__} holds no tensor that is known")


def prepare(architecture: Architecture) -> tuple[Tensors, list[torch.Tensor], list[torch.Tensor]]:
    """The model, and inputs of two batches."""
    inputs, more = architecture.inputs(batch=2), architecture.inputs(batch=5)
    names = [name for name, value in inputs.items() if isinstance(value, torch.Tensor)]
    others = {name: value for name, value in inputs.items() if name not in names}
    model = Tensors(architecture.build().eval(), names, others)
    return model, [inputs[name] for name in names], [more[name] for name in names]


def export(model: Tensors, args: list[torch.Tensor], is_dynamic: bool) -> torch.export.ExportedProgram:
    shapes = None
    if is_dynamic:
        batch = torch.export.Dim("batch", min=2, max=64)
        shapes = {"tensors": tuple({0: batch} for _ in args)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(model, tuple(args), dynamic_shapes=shapes, strict=False)


@torch.no_grad()
def check(architecture: Architecture, is_dynamic: bool, folder: Path, inductor: bool = False) -> dict[str, Any]:
    """One row of the table; `error` says at which step it ended."""
    row: dict[str, Any] = {"name": architecture.name, "batch": "dynamic" if is_dynamic else "static"}
    stage = "build"
    try:
        model, args, more = prepare(architecture)
        stage = "export"
        exported = export(model, args, is_dynamic)
        stage, start = "package", time.perf_counter()
        path = torch_tile.aot.package(exported, folder / "m.tile")
        row["package_s"] = time.perf_counter() - start
        stage, start = "load", time.perf_counter()
        loaded = torch_tile.aot.load(path)
        row["load_ms"] = (time.perf_counter() - start) * 1e3
        row["same"], row["difference"] = True, 0.0
        for given in [args, more] if is_dynamic else [args]:
            stage = "run"
            expected, here = model(*given), loaded(*given)
            stage = "C++"
            found, row["uses_torch"] = runner.run(path, given, folder)
            row["same"] &= torch.equal(found[0], here)
            row["difference"] = max(row["difference"], (here.double() - expected.double()).abs().max().item())
        if inductor:
            stage, start = "AOTInductor", time.perf_counter()
            package = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "m.pt2"))
            row["inductor_package_s"] = time.perf_counter() - start
            start = time.perf_counter()
            torch._inductor.aoti_load_package(package)(*args)
            row["inductor_load_ms"] = (time.perf_counter() - start) * 1e3
    except Exception as error:
        row["error"] = (
            f"{stage}: {type(error).__name__}: {str(error).strip().splitlines()[0][:150] if str(error) else ''}"
        )
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for architecture in ARCHITECTURES:
        if options.names and architecture.name not in options.names:
            continue
        for is_dynamic in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(check(architecture, is_dynamic, Path(folder), options.inductor))
            print({k: round(v, 6) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    good = {row["name"] for row in rows if row.get("same") and "error" not in row}
    bad = {row["name"] for row in rows if not row.get("same") or "error" in row}
    print(f"{len(good - bad)} of {len(good | bad)} architectures run from C++ as in Python, static and dynamic")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
