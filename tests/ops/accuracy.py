"""Errors against float64, in ulp, of this backend and of eager.

`python -m tests.ops.accuracy [topic ...]` writes a page for each topic: a list of cases in a module of its own
(`_topics`). `tests/ops/test_accuracy.py` asserts that no error of ours exceeds twice eager's by more than one ulp.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.compiling import ROOT, compiled

LOWEST_EXPONENT = {torch.float64: -1022, torch.float32: -126, torch.float16: -14, torch.bfloat16: -126}


@dataclasses.dataclass(frozen=True)
class Case:
    """A function, and inputs for one dtype."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[torch.dtype], tuple[Any, ...]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    dynamic: bool = False
    slow: bool = False
    """Left out of the tests' fast tier."""
    reference: Callable[..., Any] | None = None
    """The exact results, where the function on float64 does not give them."""

    def __str__(self) -> str:
        return self.name + (" dynamic" if self.dynamic else "")


@dataclasses.dataclass(frozen=True)
class Error:
    """Of one run: the largest error and the mean one, in ulp."""

    largest: float
    mean: float


def ulp(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbours in `dtype` at `exact`, or at what is usual among its elements where that is more.

    Next to a zero that large terms cancel to, an ulp says nothing about a sum.
    """
    finite = exact[exact.isfinite()]
    usual = finite.square().mean().sqrt() if finite.numel() else torch.tensor(1.0)
    magnitude = torch.maximum(exact.abs(), usual).nan_to_num(posinf=1.0)
    exponent = torch.frexp(magnitude).exponent - 1
    one = torch.tensor(torch.finfo(dtype).eps, dtype=torch.float64)
    return torch.ldexp(one.expand_as(exponent), exponent.clamp(min=LOWEST_EXPONENT[dtype]))


def tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def error(result: Any, exact: Any, magnitude: Any = None) -> Error:
    """Where the exact value is finite in the result's dtype; elsewhere both have to be the same.

    `magnitude`: where terms cancel, the sums of their magnitudes, in whose ulp errors are told.
    """
    largest, means = 0.0, []
    scales = tensors(exact if magnitude is None else magnitude)
    for value, reference, scale in zip(tensors(result), tensors(exact), scales, strict=True):
        rounded = reference.to(value.dtype)
        counts = rounded.isfinite()
        difference = (value.double() - reference).abs() / ulp(scale, value.dtype)
        difference = torch.where(counts, difference, torch.zeros_like(difference)).nan_to_num(nan=torch.inf)
        if difference.numel():
            largest = max(largest, difference.max().item())
            means.append(difference.mean().item())
    return Error(largest, sum(means) / max(len(means), 1))


def wide(inputs: Any) -> Any:
    def widen(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return pytree.tree_map(widen, inputs)


def measure(case: Case, dtype: torch.dtype) -> tuple[Error, Error]:
    """Errors of this backend and of eager."""
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    exact = case.reference(*inputs) if case.reference else case.function(*wide(inputs))
    torch.compiler.reset()
    ours = error(compiled(case.function, dynamic=case.dynamic)(*inputs), exact)
    return ours, error(case.function(*inputs), exact)


def is_close_enough(ours: Error, eagers: Error, slack: float = 1) -> bool:
    """`slack`: ulp beyond twice eager's error, which may be small by chance where there are few results."""
    return ours.largest <= 2 * eagers.largest + slack


def _topics() -> dict[str, Iterable[Case]]:
    from tests.ops import accuracy_reductions

    return {"reductions": accuracy_reductions.CASES}


def pairs(topic: str) -> Iterator[tuple[Case, torch.dtype]]:
    for case in _topics()[topic]:
        for dtype in case.dtypes:
            yield case, dtype


def page(topic: str) -> str:
    lines = [
        f"# Accuracy: {topic}",
        "",
        "Errors against float64 in units of the last place of the result's dtype: the largest of all, and the mean.",
        f"torch {torch.__version__.partition('+')[0]}, CPU, `python -m tests.ops.accuracy {topic}`.",
        "Tests hold the largest error to twice eager's plus one ulp.",
        "",
        "| program | dtype | ours, largest | eager, largest | ours, mean | eager, mean |",
        "|---|---|---|---|---|---|",
    ]
    for case, dtype in pairs(topic):
        ours, eagers = measure(case, dtype)
        numbers = (ours.largest, eagers.largest, ours.mean, eagers.mean)
        kind = str(dtype).removeprefix("torch.")
        lines.append(f"| {case} | {kind} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")
        print(lines[-1], "" if is_close_enough(ours, eagers) else "  <---", flush=True)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    for topic in arguments or list(_topics()):
        text = page(topic)
        (ROOT / "docs/generated" / f"accuracy-{topic}.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
