"""Makes the tensors that op cases are tried with: reproducible, in one dtype, with values in a domain."""

from __future__ import annotations

import dataclasses

import torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
NUMBERS = FLOATS + INTS
ALL = (*NUMBERS, torch.bool)


@dataclasses.dataclass(frozen=True)
class Domain:
    """Values in [low, high], none closer to zero than `gap`."""

    low: float = -4.0
    high: float = 4.0
    gap: float = 0.0


ANY = Domain()
POSITIVE = Domain(0.1, 8.0)
NONZERO = Domain(-4.0, 4.0, gap=0.5)
UNIT = Domain(-0.95, 0.95)
ABOVE_ONE = Domain(1.05, 6.0)
SMALL_COUNT = Domain(0.0, 5.0)


class Inputs:
    """Builds tensors of one dtype. Sizes made by `size` grow from one call of a dynamic graph to the next."""

    def __init__(self, dtype: torch.dtype = torch.float32, seed: int = 0, grow: int = 0) -> None:
        self.dtype = dtype
        self.grow = grow
        self._generator = torch.Generator().manual_seed(seed + 1000 * grow)

    def size(self, value: int) -> int:
        return value + self.grow

    def tensor(self, *shape: int, domain: Domain = ANY, dtype: torch.dtype | None = None) -> torch.Tensor:
        dtype = dtype or self.dtype
        if dtype == torch.bool:
            return torch.randint(2, shape, generator=self._generator).bool()
        if dtype.is_floating_point:
            values = torch.rand(shape, generator=self._generator, dtype=torch.float64)
            values = domain.low + (domain.high - domain.low) * values
            if domain.gap:
                values = torch.where(
                    values.abs() < domain.gap, torch.copysign(torch.tensor(domain.gap).double(), values), values
                )
            return values.to(dtype)
        low = 0 if dtype == torch.uint8 else int(4 * domain.low)
        values = torch.randint(
            max(low, int(4 * domain.low)), int(4 * domain.high) + 1, shape, generator=self._generator
        )
        if domain.gap:
            values = torch.where(values == 0, torch.ones_like(values), values)
        return values.to(dtype)

    def index(self, *shape: int, below: int, negative: bool = False) -> torch.Tensor:
        """Integers in [0, below), or [-below, below)."""
        return torch.randint(-below if negative else 0, below, shape, generator=self._generator)

    def order(self, count: int) -> torch.Tensor:
        """0 to count - 1 in some order."""
        return torch.randperm(count, generator=self._generator)

    def permutation(self, *shape: int) -> torch.Tensor:
        """Distinct numbers, so that an argmax has one answer; on dtypes too small for that they repeat."""
        count = 1
        for size in shape:
            count *= size
        values = torch.randperm(count, generator=self._generator).reshape(shape)
        if self.dtype == torch.bool:
            return values % 2 == 0
        return (values % 100 if self.dtype in (torch.int8, torch.uint8, torch.bfloat16, torch.float16) else values).to(
            self.dtype
        )
