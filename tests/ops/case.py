"""What one operator is tested with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tests.ops.inputs import FLOATS, Domain, Inputs

Arguments = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class OpCase:
    """An operator, or a few that belong together, and how to call it."""

    name: str
    function: Callable[..., Any]
    samples: Callable[[Inputs], Sequence[Arguments]]
    dtypes: tuple[torch.dtype, ...] = FLOATS
    grad: bool = True
    """The gradient of its floating-point arguments is compared."""
    constants: tuple[int, ...] = ()
    """Positions of floating-point arguments that take no gradient."""
    dynamic: bool = True
    """Makes sense with sizes that change."""
    generated: bool = True
    """Every operator of the case becomes a kernel of ours; False where one may be called through the dispatcher."""
    operands: tuple[Domain, ...] = ()
    """Of a pointwise case: the domain of each tensor. Layouts, broadcasts and special values are tried on these."""
    tolerances: Mapping[torch.dtype, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """Where rounding errors exceed the usual; `reason` says why."""
    reason: str = ""
    is_sum: bool = False
    """Additions have another order than eager's: float32 is at most twice as far from float64 as eager's."""
    is_linear: bool = False
    """A sum whose terms cancel: errors are told in units of what their magnitudes give."""
    special: bool = True
    """A pointwise case that is also tried with NaN, infinities, subnormals and large arguments."""

    def __post_init__(self) -> None:
        assert not self.tolerances or self.reason, f"{self.name}: a tolerance needs its reason"

    def __str__(self) -> str:
        return self.name

    def limits(self, dtype: torch.dtype) -> tuple[float | None, float | None]:
        return self.tolerances.get(dtype, (None, None))


def pointwise(
    name: str,
    function: Callable[..., Any],
    *operands: Domain,
    dtypes: tuple[torch.dtype, ...] = FLOATS,
    **rest: Any,
) -> OpCase:
    """A case that applies `function` to equal-shaped tensors of these domains."""

    def samples(make: Inputs) -> Sequence[Arguments]:
        return [tuple(make.tensor(make.size(5), 19, domain=domain) for domain in operands)]

    return OpCase(name, function, samples, dtypes, operands=operands, **rest)
