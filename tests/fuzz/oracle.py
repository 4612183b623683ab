"""Runs a program in eager mode and compiled, and says what differs."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch._functorch.config as functorch_config

from tests.fuzz.analysis import (
    IS_EXACT,
    IS_UNKNOWN,
    Eager,
    epsilon,
    record,
    root_of,
    wide_run,
)
from tests.fuzz.program import Program

NOISE_RUNS = 4
# Their class depends on the operator in eager mode; several operators in one program may fail, any of them first.
OUT_OF_RANGE = re.compile("out of (range|bounds)")
# Their own roundings, which are not among the noise, count against the largest number that they work with.
CANCELS = re.compile(r"\b(log_softmax|cumsum|cdist)_?\(")
# Eager mode's own arithmetic overflows in the middle, and then judges nothing.
OVERFLOWS = re.compile(r"\blayer_norm\(")
# Whether the least of 0.0 and -0.0 is the one or the other depends on the order in which eager's vectors meet them.
ORDER_OF_ZEROS = re.compile(
    r"\b(amax|amin|aminmax|cummax|cummin|max|min|sort|topk|kthvalue|median|mode|unique|scatter_reduce)_?\("
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """What differs: `kind` is wrong, inexact, stride, dtype, alias, input, error, raises, warm, threads, fusion, ..."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclasses.dataclass
class Observation:
    """One call: outputs, arguments after it, gradients, or the exception."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    gradients: list[torch.Tensor | None] = dataclasses.field(default_factory=list)
    error: Exception | None = None


def gradients_of(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], retain: bool = False
) -> list[torch.Tensor | None]:
    leaves = [x for x in inputs if x.requires_grad]
    seen: list[torch.Tensor] = []
    for value in outputs:
        if value.requires_grad and not any(value is other for other in seen):
            seen.append(value)
    if not leaves or not seen:
        return []
    weights = [
        torch.linspace(0.5, 1.5, v.numel(), dtype=torch.float64, device=v.device)
        .mul(8)
        .round()
        .div(8)
        .reshape(v.shape)
        .to(v.dtype)
        for v in seen
    ]
    first = torch.autograd.grad(seen, leaves, weights, allow_unused=True, retain_graph=retain)
    if not retain:
        return list(first)
    again = torch.autograd.grad(seen, leaves, weights, allow_unused=True)
    for a, b in zip(first, again, strict=True):
        if a is not None and b is not None and not same_bits(a, b):
            raise AssertionError("a second backward of one graph (retain_graph) gives another gradient")
    return list(first)


def observe(function: Any, inputs: list[torch.Tensor], training: bool, retain: bool = False) -> Observation:
    seen = Observation(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seen.outputs = list(function(*inputs))
            if training:
                seen.gradients = gradients_of(seen.outputs, inputs, retain)
        except Exception as error:
            seen.error = error
    return seen


# Comparing


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not differing(a, b).any()


def differing(a: torch.Tensor, b: torch.Tensor, zeros_have_signs: bool = True) -> torch.Tensor:
    """Where values differ; NaN equals NaN."""
    a, b = a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()
    if a.is_complex():
        return differing(torch.view_as_real(a), torch.view_as_real(b), zeros_have_signs).any(-1)
    bad = a != b
    if a.is_floating_point():
        bad = bad & ~(a.isnan() & b.isnan())
        if zeros_have_signs:
            bad = bad | ((a == 0) & (b == 0) & (a.signbit() != b.signbit()))
    return bad


def shown(a: torch.Tensor, b: torch.Tensor, bad: torch.Tensor) -> str:
    place = tuple(int(i) for i in bad.nonzero()[0])
    return f"{int(bad.sum())} of {bad.numel()} differ, the first at {place}: {a[place].item()}, not {b[place].item()}"


def strides_that_matter(tensor: torch.Tensor) -> list[int]:
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def sharing(seen: Observation) -> list[Any]:
    """Which outputs share memory with which arguments and outputs, and where in an argument's memory they begin."""
    everything = [*seen.inputs, *seen.outputs]
    roots = [root_of(t) if t.numel() else -1 - i for i, t in enumerate(everything)]
    result = []
    for i in range(len(seen.inputs), len(everything)):
        first = roots.index(roots[i])
        result.append((first, everything[i].storage_offset() if first < len(seen.inputs) else 0))
    return result


def in_memory(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The whole storage of every argument."""
    plain = [x.detach() for x in inputs]
    return [
        x.resolve_conj().resolve_neg() if x.is_neg() or x.is_conj()
        else x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
        for x in plain
    ]  # fmt: skip


def compare_forms(result: Observation, expected: Observation) -> Iterator[Finding]:
    for i, (a, b) in enumerate(zip(result.outputs, expected.outputs, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            yield Finding("dtype", f"output {i}: {a.dtype} {list(a.shape)}, not {b.dtype} {list(b.shape)}")
        elif strides_that_matter(a) != strides_that_matter(b):
            yield Finding("stride", f"output {i}: {a.stride()}, not {b.stride()} for {list(b.shape)}")
        elif a.requires_grad != b.requires_grad:
            yield Finding("grad", f"output {i}: requires_grad {a.requires_grad}, not {b.requires_grad}")
    if sharing(result) != sharing(expected):
        yield Finding("alias", f"memory shared {sharing(result)}, not {sharing(expected)}")


def compare_bits(
    kind: str, result: Observation, expected: Observation, only: Sequence[bool] | None = None
) -> Finding | None:
    pairs = zip(result.outputs, expected.outputs, strict=True)
    for i, (a, b) in enumerate(pairs):
        if a.shape == b.shape and a.dtype == b.dtype and (only is None or only[i]):
            bad = differing(a, b)
            if bad.any():
                return Finding(kind, f"output {i}: {shown(a, b, bad)}")
    for i, (c, d) in enumerate(zip(result.gradients, expected.gradients, strict=True)):
        if only is None and c is not None and d is not None and differing(c, d).any():
            return Finding(kind, f"gradient {i}: {shown(c, d, differing(c, d))}")
    return None


class Judge:
    """What eager gives for one set of inputs, and how far from it one may lie."""

    def __init__(self, program: Program, sizes: Any) -> None:
        self.program, self.sizes = program, sizes
        self.expected = observe(program.function(), program.make_inputs(sizes), program.training)
        self.eager: Eager | None = None
        if self.expected.error is None:
            self.inputs = program.make_inputs(sizes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.eager, self.steps = record(self.inputs, program.lines, program.emulate)
        self._wide: list[Any] | None = None
        self.overflows = any(OVERFLOWS.search(line.text) for line in program.lines)
        self.cancels = any(CANCELS.search(line.text) for line in program.lines)
        self.zeros_have_signs = not any(ORDER_OF_ZEROS.search(line.text) for line in program.lines)

    def status(self, name: str) -> int:
        assert self.eager is not None
        return self.eager.status_of(name)

    def wide(self) -> list[Any]:
        """Outputs, inputs after and gradients in float64: once as they are, then with noise."""
        if self._wide is None:
            assert self.eager is not None
            runs: list[Any] = []
            for seed in (None, *range(NOISE_RUNS)):
                run = wide_run(self.eager, self.program.make_inputs(self.sizes), self.program.lines, self.steps, seed)
                outputs = [run.values[name] for name in self.program.outputs]
                gradients = gradients_of(outputs, run.inputs) if self.program.training else []
                runs.append((outputs, run.inputs, gradients))
            self._wide = runs
        return self._wide

    def compare(self, result: Observation) -> list[Finding]:
        expected = self.expected
        if expected.error is not None or result.error is not None:
            return list(self._compare_errors(result))
        found = list(compare_forms(result, expected))
        if any(f.kind == "dtype" for f in found):
            return found
        for i, name in enumerate(self.program.outputs):
            found += self._compare(f"output {i} ({name})", 0, i, result.outputs[i], expected.outputs[i], name)
        for i, (a, b) in enumerate(zip(in_memory(result.inputs), in_memory(expected.inputs), strict=True)):
            status = self.status(f"x{i}")
            bad = differing(a, b, self.zeros_have_signs)
            if status == IS_EXACT and bad.any():
                found.append(Finding("input", f"memory of input {i}: {shown(a, b, bad)}"))
            elif status != IS_EXACT:
                found += self._compare(f"input {i}", 1, i, result.inputs[i], expected.inputs[i], f"x{i}")
        if self.program.training:
            found += self._compare_gradients(result)
        return found

    def _compare_errors(self, result: Observation) -> Iterator[Finding]:
        mine, theirs = result.error, self.expected.error
        if mine is None:
            yield Finding("raises", f"nothing raised, not {type(theirs).__name__}: {str(theirs)[:300]}")
        elif theirs is None:
            yield Finding("error", f"{type(mine).__name__}: {str(mine)[:800]}")
        elif type(mine) is not type(theirs) and not (
            OUT_OF_RANGE.search(str(mine)) and OUT_OF_RANGE.search(str(theirs))
        ):
            yield Finding("class", f"{type(mine).__name__}: {str(mine)[:400]}, not {type(theirs).__name__}: {theirs}")

    def _compare_gradients(self, result: Observation) -> Iterator[Finding]:
        expected = self.expected.gradients
        if len(expected) != len(result.gradients):
            yield Finding("grad", f"{len(result.gradients)} gradients, not {len(expected)}")
            return
        for i, (a, b) in enumerate(zip(result.gradients, expected, strict=True)):
            if (a is None) != (b is None):
                yield Finding(
                    "grad", f"gradient {i}: {'none' if a is None else 'one'}, not {'none' if b is None else 'one'}"
                )
            elif a is not None and b is not None:
                if a.dtype != b.dtype or a.shape != b.shape:
                    yield Finding("dtype", f"gradient {i}: {a.dtype} {a.shape}, not {b.dtype} {b.shape}")
                elif not same_bits(a, b):
                    yield from self._compare(f"gradient {i}", 2, i, a, b, None)

    def _compare(
        self, what: str, part: int, i: int, a: torch.Tensor, b: torch.Tensor, name: str | None
    ) -> Iterator[Finding]:
        status = None if name is None else self.status(name)
        bad = differing(a, b, self.zeros_have_signs)
        if status == IS_UNKNOWN or not bad.any():
            return
        if status == IS_EXACT:
            yield Finding("wrong", f"{what}: {shown(a, b, bad)}")
            return
        try:
            wide = [run[part][i] for run in self.wide()]
        except (RuntimeError, IndexError, TypeError) as error:  # float64 takes another way through the program
            yield Finding("judge", f"{what}: {type(error).__name__} in float64: {error}")
            return
        if any(w is None or w.shape != b.shape for w in wide):
            yield Finding("judge", f"{what}: float64 gives another size")
            return
        text = too_far(a.detach(), b.detach(), [w.detach() for w in wide], part == 2 or self.cancels, self.overflows)
        if text:
            yield Finding("inexact" if part != 2 else "gradient", f"{what}: {text}")


def too_far(
    a: torch.Tensor, b: torch.Tensor, wide: list[torch.Tensor], has_inner_noise: bool, overflows: bool = False
) -> str | None:
    """None if `a` lies as near to float64 as twice eager's error, in units of noise, and one unit more."""
    if a.is_complex():
        a, b, *wide = (torch.view_as_real(t.resolve_conj()) for t in (a, b, *wide))
    dtype, real = a.dtype, a
    a, b, exact = a.resolve_neg().double(), b.resolve_neg().double(), wide[0].resolve_neg().double()
    noisy = torch.stack([w.resolve_neg().double() for w in wide[1:]])
    # Overflow and NaN: as eager, or as the rounded result in float64.
    rounded = exact.to(dtype).double()
    largest = torch.finfo(dtype).max
    finite = a.isfinite() & b.isfinite() & rounded.isfinite() & noisy.isfinite().all(0)
    same = (a == b) | (a == rounded) | (a.isnan() & (b.isnan() | rounded.isnan() | ~noisy.isfinite().all(0)))
    if overflows:
        same = same | (~b.isfinite() & rounded.isfinite())
    # Where the noise alone overflows, what is near is right.
    same = same | ((a - rounded).abs() <= 8 * epsilon(dtype) * rounded.abs())
    same = same | ((a.abs() >= 0.9 * largest) & (noisy.abs().amax(0) >= 0.9 * largest))
    bad = ~finite & ~same
    if bad.any():
        return f"not finite alike: {shown(real, b, bad)}; in float64 {exact[bad][0].item()}"
    if not finite.any():
        return None
    a, b, exact, noisy = a[finite], b[finite], exact[finite], noisy[:, finite]
    ulp = 2 * epsilon(dtype) * exact.abs() + 2 * torch.finfo(dtype).tiny * epsilon(dtype)
    moved = (noisy - exact).abs().amax(0)
    if has_inner_noise:  # as of a backward: neither its roundings nor those of what the forward saves are noise
        ulp = ulp + 4 * epsilon(dtype) * max(1.0, float(exact.abs().max()))
    noise = ulp + 2 * moved
    theirs, mine = (b - exact).abs() / noise, (a - exact).abs() / noise
    # Of float64 there is nothing wider: the judge is eager's own arithmetic, whose error counts as one unit.
    limit = 2 * max(float(theirs.max()), float(dtype in (torch.float64, torch.complex128))) + 1
    if not (mine <= limit).all():
        k = int(mine.argmax())
        return (
            f"{float(mine.max()):.3g} units of noise from float64 where eager has {float(theirs.max()):.3g}: "
            f"{a[k].item()}, eager {b[k].item()}, float64 {exact[k].item()}"
        )
    return None


@contextlib.contextmanager
def settings(retain: bool = False) -> Iterator[None]:
    threads = torch.get_num_threads()
    patch = {"capture_dynamic_output_shape_ops": True, "specialize_int": True, "cache_size_limit": 64}
    donated = functorch_config.patch(donated_buffer=not retain)
    with torch._dynamo.config.patch(**patch), donated:
        try:
            yield
        finally:
            torch.set_num_threads(threads)
