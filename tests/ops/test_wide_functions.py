"""exp, sin and cos of float64 against 80-bit arithmetic, and remainders of floats, which are exact, against eager."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.compiling import IS_TILE, assert_same, compiled

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

SPECIAL = [
    0.0,
    -0.0,
    float("inf"),
    -float("inf"),
    float("nan"),
    5e-324,
    -5e-324,
    2.3e-308,
    1.7e308,
    -1.7e308,
    1.0,
    -1.0,
]


def arguments(scale: float, count: int = 20000) -> torch.Tensor:
    random = torch.randn(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * scale
    quarters = torch.arange(-500, 500, dtype=torch.float64) * (np.pi / 4)
    return torch.cat((random, quarters, torch.tensor(SPECIAL, dtype=torch.float64)))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a type wider than float64")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 400.0, 1e6, 1e12])
@pytest.mark.parametrize("name", ["exp", "sin", "cos"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_error_in_units_of_the_last_place(name: str, scale: float) -> None:
    x = arguments(scale)
    result = compiled(getattr(torch, name))(x).numpy()
    # Of angles, 80 bits are exact enough near zeros while they are small.
    exact = getattr(np, name)(x.numpy().astype(np.longdouble))
    expected = exact.astype(np.float64)
    special = ~np.isfinite(expected) | (expected == 0)
    assert np.array_equal(result[special], expected[special], equal_nan=True)
    assert np.array_equal(np.signbit(result[expected == 0]), np.signbit(expected[expected == 0]))
    regular = ~special
    unit = np.spacing(np.abs(expected[regular])).astype(np.longdouble)
    error = np.abs(result[regular].astype(np.longdouble) - exact[regular]) / unit
    assert error.max() <= 1.0, (error.max(), x.numpy()[regular][error.argmax()])


def exact_remainder(function: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The C library's, which is exact; eager's vectors are not where the quotient has more bits than the type."""
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    x, y = a.to(wide), b.to(wide)
    with np.errstate(invalid="ignore"):
        rest = torch.from_numpy(np.fmod(x.numpy(), y.numpy()))
    if function is torch.remainder:
        rest = torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    return rest.to(a.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [torch.fmod, torch.remainder], ids=["fmod", "remainder"])
def test_remainder(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    """Quotients of all sizes, whole ones and their neighbours, and what is not finite."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4096, generator=generator, dtype=torch.float64) * 10 ** (torch.arange(4096) % 13 - 3).double()
    y = torch.randn(4096, generator=generator, dtype=torch.float64)
    y = y.to(dtype).double()
    whole = y * torch.randint(-2000, 2000, (4096,), generator=generator).double()
    cases = [(x, y), (whole, y), (torch.nextafter(whole, -whole), y), (torch.nextafter(whole, 2 * whole), y)]
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    cases.append((special.repeat(len(SPECIAL)), special.repeat_interleave(len(SPECIAL))))
    for a, b in cases:
        a, b = a.to(dtype), b.to(dtype)
        assert_same(compiled(function)(a, b), exact_remainder(function, a, b), rtol=0, atol=0)
    mixed = torch.cat((x[:64], special[:5])).to(dtype)
    expected = exact_remainder(function, mixed, torch.tensor(0.75, dtype=dtype))
    assert_same(compiled(lambda a: function(a, 0.75))(mixed), expected, rtol=0, atol=0)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a type wider than float64")
def test_spherical_bessel():
    """A series near 0, which has all terms that float64 can tell: on both sides of where it begins."""
    x = torch.linspace(-1, 1, 20000, dtype=torch.float64)
    wide = x.numpy().astype(np.longdouble)
    exact = np.sin(wide) / wide
    error = np.abs(compiled(torch.special.spherical_bessel_j0)(x).numpy() - exact) / exact
    assert error.max() < 2 * np.finfo(np.float64).eps
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    assert_same(compiled(torch.special.spherical_bessel_j0)(special), torch.special.spherical_bessel_j0(special))
