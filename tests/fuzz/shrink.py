"""Makes a failing program small: fewer lines, outputs and inputs, plainer layouts, smaller sizes, fewer modes."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator

from tests.fuzz.program import NAME, Line, Program


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, text)


def _without_line(program: Program, k: int) -> Iterator[Program]:
    """Without line k: what reads its result reads one of its operands, or goes too."""
    line, rest = program.lines[k], program.lines[k + 1 :]
    for target in line.targets[:1]:
        for operand in dict.fromkeys(line.operands):
            lines = tuple(Line(_renamed(each.text, target, operand), each.rule) for each in rest)
            outputs = tuple(operand if o == target else o for o in program.outputs)
            yield dataclasses.replace(program, lines=(*program.lines[:k], *lines), outputs=outputs)
    gone, kept = set(line.targets), list(program.lines[:k])
    for each in rest:
        if gone & set(NAME.findall(each.text)):
            gone |= set(each.targets)
        else:
            kept.append(each)
    outputs = tuple(o for o in program.outputs if o not in gone)
    if outputs:
        yield dataclasses.replace(program, lines=tuple(kept), outputs=outputs)


def _without_input(program: Program, k: int) -> Program | None:
    """Without argument k, if nothing names it; later ones move down."""
    used = {n for line in program.lines for n in NAME.findall(line.text)} | set(program.outputs)
    if f"x{k}" in used or len(program.inputs) == 1 or any(x.shares == k for x in program.inputs):
        return None
    inputs = [x for i, x in enumerate(program.inputs) if i != k]
    inputs = [
        dataclasses.replace(x, shares=x.shares - 1) if x.shares is not None and x.shares > k else x for x in inputs
    ]
    lines, outputs = list(program.lines), list(program.outputs)
    for i in range(k + 1, len(program.inputs)):
        lines = [Line(_renamed(each.text, f"x{i}", f"x{i - 1}"), each.rule) for each in lines]
        outputs = [f"x{i - 1}" if o == f"x{i}" else o for o in outputs]
    return dataclasses.replace(program, inputs=tuple(inputs), lines=tuple(lines), outputs=tuple(outputs))


def candidates(program: Program) -> Iterator[Program]:
    replace = dataclasses.replace
    if program.mode != "static":
        yield replace(program, mode="static", sizes=program.other_sizes)
        yield replace(program, mode="static")
    if program.training:
        inputs = tuple(replace(x, requires_grad=False) for x in program.inputs)
        yield replace(program, training=False, inputs=inputs)
    if program.retain:
        yield replace(program, retain=False)
    for o in range(len(program.outputs)):
        if len(program.outputs) > 1:
            yield replace(program, outputs=(*program.outputs[:o], *program.outputs[o + 1 :]))
    for k in reversed(range(len(program.lines))):
        yield from _without_line(program, k)
    for k in reversed(range(len(program.inputs))):
        without = _without_input(program, k)
        if without is not None:
            yield without
    if program.emulate:
        yield replace(program, emulate=False)
    for i, x in enumerate(program.inputs):
        plainer = []
        if x.layout != "contiguous":
            plainer.append(replace(x, layout="contiguous", shares=None))
        if x.values != "integers":
            plainer.append(replace(x, values="integers"))
        if x.requires_grad and sum(y.requires_grad for y in program.inputs) > 1:
            plainer.append(replace(x, requires_grad=False))
        plainer += [replace(x, shape=x.shape[:d] + x.shape[d + 1 :]) for d in range(len(x.shape))]
        for new in plainer:
            yield replace(program, inputs=(*program.inputs[:i], new, *program.inputs[i + 1 :]))
    for name, size in program.sizes.items():
        for smaller in (1, 2, 3, size // 2, size - 1):
            if 0 < smaller < size:
                yield replace(program, sizes={**program.sizes, name: smaller})


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 120.0) -> Program:
    """The smallest program found in that time that still fails."""
    end = time.monotonic() + seconds
    tried: set[str] = set()
    while True:
        for candidate in candidates(program):
            key = repr(candidate)
            if key in tried:
                continue
            tried.add(key)
            if time.monotonic() > end:
                return program
            if fails(candidate):
                program = candidate
                break
        else:
            return program
