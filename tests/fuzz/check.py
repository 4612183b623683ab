"""All checks of one program under a backend."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from tests.fuzz.analysis import IS_EXACT
from tests.fuzz.oracle import Finding, Judge, Observation, compare_bits, observe, settings, strides_that_matter
from tests.fuzz.program import Program

EXTRAS = ("threads", "warm", "fusion")
THREADS = (1, 2, 7)
# Atomic updates on a GPU add in any order, and so do the gradients of what reads by index.
ADDS_IN_ANY_ORDER = re.compile(r"scatter|index_add|index_put|accumulate")


def compiled(program: Program, backend: str, **more: Any) -> Callable[..., Any]:
    dynamic = {"dynamic": True, "marked": None, "static": False}[program.mode]
    options = {"strict": True, "poison": True, "emulate_precision_casts": program.emulate, **more}
    extra = {"options": options} if backend == "tile" else {}
    function = program.function()
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True, **extra)


def arguments(program: Program, sizes: Any) -> list[torch.Tensor]:
    made = program.make_inputs(sizes)
    if program.mode == "marked":
        for x in made:
            for d in range(x.dim()):
                torch._dynamo.maybe_mark_dynamic(x, d)
    return made


def check(program: Program, extra: str = "", backend: str = "tile") -> list[Finding]:
    """What differs from eager mode; `extra` is one of EXTRAS."""
    with settings(program.retain):
        return _check(program, extra, backend)


def _check(program: Program, extra: str, backend: str) -> list[Finding]:
    torch.compiler.reset()
    judge = Judge(program, program.sizes)
    function = compiled(program, backend)

    def call(sizes: Any = program.sizes, using: Callable[..., Any] = function) -> Observation:
        return observe(using, arguments(program, sizes), program.training, program.retain)

    first = call()
    found = judge.compare(first)
    if found:
        return found
    if program.mode != "static":
        other = Judge(program, program.other_sizes).compare(call(program.other_sizes))
        found = [Finding(f.kind, f"sizes {dict(program.other_sizes)}: {f.text}") for f in other]
    if found or first.error is not None:
        return found
    only = None
    if program.device != "cpu" and (program.training or any(ADDS_IN_ANY_ORDER.search(x.text) for x in program.lines)):
        only = [judge.status(name) == IS_EXACT for name in program.outputs]
    found += _same("again", call(), first, only)
    if extra == "threads" and program.device == "cpu":
        for count in THREADS:
            torch.set_num_threads(count)
            found += [Finding("threads", f"{count}: {f}") for f in _same("threads", call(), first)]
    elif extra == "warm" and not found:
        torch.compiler.reset()
        found += _same("warm", call(using=compiled(program, backend)), first, only)
    elif extra == "fusion" and not found and backend == "tile":
        torch.compiler.reset()
        alone = call(using=compiled(program, backend, fusion=False))
        found += [Finding("fusion", f"off: {f}") for f in judge.compare(alone)]
        if not found:
            exact = [judge.status(name) == IS_EXACT for name in program.outputs]
            one = compare_bits("fusion", alone, first, exact)
            found += [one] if one else []
    return found


def _same(kind: str, result: Observation, first: Observation, only: Sequence[bool] | None = None) -> list[Finding]:
    if result.error is not None:
        return [Finding(kind, f"{type(result.error).__name__}: {str(result.error)[:500]}")]
    one = compare_bits(kind, result, first, only)
    return [one] if one else []


def is_unsupported(finding: Finding) -> bool:
    """An honest refusal, which is eager's answer without `strict`."""
    return "UnsupportedError" in finding.text


def is_torchs(program: Program, finding: Finding, extra: str) -> bool:
    """Whether what comes before any backend (Dynamo, AOTAutograd) already changes the program's meaning."""
    if finding.kind in ("warm", "threads", "fusion"):
        return False
    if finding.kind == "stride" and _meta_strides_differ(program):
        return True
    return any(f.kind == finding.kind or f.kind == "error" for f in check(program, extra, "aot_eager"))


def _meta_strides_differ(program: Program) -> bool:
    """A compiler sees the meta functions of operators, some of which choose other strides than the kernels."""
    mode = FakeTensorMode()
    for sizes in (program.sizes, program.other_sizes):
        real = observe(program.function(), program.make_inputs(sizes), False)
        inputs = [mode.from_tensor(x.detach()) for x in program.make_inputs(sizes)]
        with mode:
            fake = observe(program.function(), inputs, False)
        if real.error or fake.error:
            continue
        if [strides_that_matter(t) for t in real.outputs] != [strides_that_matter(t) for t in fake.outputs]:
            return True
    return False


BACKEND = os.environ.get("TORCH_TILE_TEST_BACKEND", "tile")
