"""Special functions from arithmetic, exp, log, erf and the trigonometric functions.

Kernels for the CPU compute them in float64, so the result of a float32 operand is off by its own rounding alone; those
for a GPU compute float64 operands alone so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tile.formulas.rounding import two_product

aten = torch.ops.aten

# Chebyshev coefficients, interpolated at Chebyshev points with 45 digits: exp(-x) I(x) over x in [0, 8] in x/4 - 1, for
# I1 times (1 + x/3)^1.5 / x; exp(-x) sqrt(x) I(x) over x > 8 in 16/x - 1.
# fmt: off
_I0E_SMALL = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18,
)
_I0E_LARGE = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18,
)
_I1E_SMALL = (
    0.2233541525263496, -0.15751369249473027, 0.07411348836310858, -0.030436780996357347,
    0.01075675627924886, -0.00315697171303146, 0.0006930888872129129, -6.191337110832583e-05,
    -3.881179832755951e-05, 2.909081808846132e-05, -1.2790072872576339e-05, 4.437738438647415e-06,
    -1.3022039583726428e-06, 3.289334540026634e-07, -7.052534488535623e-08, 1.1943020798169092e-08,
    -1.107727028289675e-09, -2.3220100105891272e-10, 1.778764322854669e-10, -6.947003148807229e-11,
    2.2015011133318778e-11, -6.26812176767756e-12, 1.676025412740504e-12, -4.3205604732448155e-13,
    1.09362200639511e-13, -2.755049095721093e-14, 6.974481180956402e-15, -1.7851288685575857e-15,
    4.633628233362807e-16, -1.2205755152987703e-16, 3.2602529779653366e-17, -8.817013201650988e-18,
    2.410128915072979e-18,
)
_I1E_LARGE = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18,
)
_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17,
)
# fmt: on


def _wide(*operands: Any) -> torch.dtype:
    tensors = [t for t in operands if isinstance(t, torch.Tensor)]
    on_cpu = all(t.device.type == "cpu" for t in tensors)
    return torch.float64 if on_cpu or any(t.dtype is torch.float64 for t in tensors) else torch.float32


def computed(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Compute wide; the result is of the operand's dtype, or the default one for integers."""

    def decomposition(x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        # Integers become a number of the result's dtype first, as in eager mode.
        return function(x.to(dtype).to(_wide(x))).to(dtype)

    return decomposition


def chebyshev(t: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Clenshaw's sum."""
    two_t = 2.0 * t
    b1: Any = coefficients[-1]
    b2: Any = 0.0
    for c in reversed(coefficients[1:-1]):
        b1, b2 = two_t * b1 - b2 + c, b1
    result: torch.Tensor = t * b1 - b2 + coefficients[0]
    return result


def polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Coefficients from the highest power on."""
    value: Any = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    result: torch.Tensor = value
    return result


def _even_and_odd(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """As polynomial, in two chains side by side."""
    square = x * x
    even, odd = polynomial(square, coefficients[-1::-2][::-1]), polynomial(square, coefficients[-2::-2][::-1])
    return even + x * odd


def _past_integer(x: torch.Tensor) -> torch.Tensor:
    """What x is beyond the nearest integer: the argument of sin and tan of pi * x, up to the sign of sin."""
    return x - torch.round(x)


def _i0e(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    large = x.clamp(min=8.0)
    return torch.where(
        x <= 8.0,
        chebyshev(x.clamp(max=8.0) * 0.25 - 1.0, _I0E_SMALL),
        chebyshev(16.0 / large - 1.0, _I0E_LARGE) * torch.rsqrt(large),
    )


def _i1e(x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    large = size.clamp(min=8.0)
    small = size.clamp(max=8.0)
    root = torch.rsqrt(small * (1.0 / 3.0) + 1.0)
    value = torch.where(
        size <= 8.0,
        chebyshev(small * 0.25 - 1.0, _I1E_SMALL) * small * (root * root * root),
        chebyshev(16.0 / large - 1.0, _I1E_LARGE) * torch.rsqrt(large),
    )
    return torch.where(x < 0, -value, value)  # of -0 it is 0, as in ATen


def _scaled_up(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    # exp alone may overflow where the product does not.
    size = x.abs()
    return value * torch.exp(size.clamp(max=80.0)) * torch.exp((size - 80.0).clamp(min=0.0))


def i0(x: torch.Tensor) -> torch.Tensor:
    return _scaled_up(_i0e(x), x)


def i1(x: torch.Tensor) -> torch.Tensor:
    return _scaled_up(_i1e(x), x)


def _erfcx_of_positive(x: torch.Tensor) -> torch.Tensor:
    """(1 + 2x) exp(x^2) erfc(x) in (x - k) / (x + k) (Shepherd and Laframboise 1981)."""
    capped = x.clamp(max=1e100)
    t = 2.0 * capped / (capped + 3.75) - 1.0  # near -1 this rounds once
    return 0.5 * chebyshev(t, _ERFCX) / (0.5 + x)  # twice the largest numbers overflow


def _erfcx(x: torch.Tensor, square_lost: Any) -> torch.Tensor:
    value = _erfcx_of_positive(x.abs())
    power = torch.exp(x * x)
    power = torch.where(x.abs() < 27.0, power + power * square_lost, power)
    return torch.where(x < 0, 2.0 * power - value, value)


def erfcx(x: torch.Tensor) -> torch.Tensor:
    """In float64. The exponential makes a relative error of what the square lost."""
    return _erfcx(x, two_product(x, x)[1])


def _erfinv_near(y: torch.Tensor) -> torch.Tensor:
    """For |y| <= 0.7: a rational guess and two Newton steps, as ATen's calc_erfinv."""
    z = y * y
    x = y * polynomial(z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    x = x / polynomial(z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    for _ in range(2):
        x = x - (torch.erf(x) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-x * x))
    return x


def _erfinv_guess(q: torch.Tensor) -> torch.Tensor:
    """ATen's guess of what erfc gives q for, up to 0.3."""
    z = torch.sqrt(-torch.log(q * 0.5))
    x = polynomial(z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    return x / polynomial(z, (1.637067800, 3.543889200, 1.0))


def _erfc_inverse(q: torch.Tensor) -> torch.Tensor:
    """What erfc gives q for, up to 0.3: Newton's steps on its logarithm, which is accurate down to the smallest q."""
    x = _erfinv_guess(q)
    target = torch.log(q)
    for _ in range(3):
        scaled = _erfcx_of_positive(x)
        x = x + (torch.log(scaled) - x * x - target) * scaled * (0.5 * math.sqrt(math.pi))
    return torch.where(q == 0.0, math.inf, x)


def erfinv(y: torch.Tensor) -> torch.Tensor:
    size = y.abs()
    x = torch.where(size <= 0.7, _erfinv_near(y), torch.copysign(_erfc_inverse(1.0 - size), y))
    return torch.where(size > 1.0, math.nan, x)


def _erfinv_of_single(y: torch.Tensor) -> torch.Tensor:
    """For results of float32, of a wider operand: Newton's steps on erf do for all of it."""
    size = y.abs()
    x = torch.where(size <= 0.7, 0.0, torch.copysign(_erfinv_guess(1.0 - size), y))
    for _ in range(2):
        x = x - (torch.erf(x) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-x * x))
    x = torch.where(size <= 0.7, _erfinv_near(y), x)
    x = torch.where(size == 1.0, torch.copysign(torch.full_like(y, math.inf), y), x)
    return torch.where(size > 1.0, math.nan, x)


def erfcinv(y: torch.Tensor) -> torch.Tensor:
    mirrored = torch.where(y < 1.0, y, 2.0 - y)
    far = _erfc_inverse(mirrored)
    x = torch.where(mirrored > 0.3, _erfinv_near(1.0 - y), torch.where(y < 1.0, far, -far))
    return torch.where((y < 0.0) | (y > 2.0), math.nan, x)


def ndtri(p: torch.Tensor) -> torch.Tensor:
    upper = p > 0.5
    q = torch.where(upper, 1.0 - p, p)
    far = _erfc_inverse(q * 2.0)
    x = torch.where(q > 0.15, _erfinv_near(p * 2.0 - 1.0), torch.where(upper, far, -far)) * math.sqrt(2.0)
    return torch.where((p < 0.0) | (p > 1.0), math.nan, x)


def _ndtri_of_single(p: torch.Tensor) -> torch.Tensor:
    """Acklam's rational approximation of the lower half, and two steps of Halley's method on erfc."""
    upper = p > 0.5
    q = torch.where(upper, 1.0 - p, p)
    tail = torch.sqrt(-2.0 * torch.log(q))
    low = polynomial(
        tail,
        (-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
         -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00),
    )  # fmt: skip
    low = low / polynomial(
        tail, (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00, 1.0)
    )
    centre = q - 0.5
    r = centre * centre
    middle = centre * polynomial(
        r,
        (-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02,
         1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00),
    )  # fmt: skip
    middle = middle / polynomial(
        r,
        (-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02, 6.680131188771972e01,
         -1.328068155288572e01, 1.0),
    )  # fmt: skip
    x = torch.where(q < 0.02425, low, middle)
    for _ in range(2):
        error = 0.5 * torch.erfc(-x / math.sqrt(2.0)) - q
        u = error * math.sqrt(2.0 * math.pi) * torch.exp(x * x * 0.5)
        x = x - u / (1.0 + x * u * 0.5)
    x = torch.where(q == 0.0, -math.inf, x)
    x = torch.where(upper, -x, x)
    return torch.where((p < 0.0) | (p > 1.0), math.nan, x)


def _digamma(x: torch.Tensor) -> torch.Tensor:
    """Reflection to x > 0, recurrence to x >= 10, the asymptotic series."""
    reflected = x < 0
    z = torch.where(reflected, 1.0 - x, x)
    shift: Any = 0.0
    for _ in range(10):
        small = z < 10.0
        shift = shift + torch.where(small, 1.0 / z, 0.0)
        z = torch.where(small, z + 1.0, z)
    w = 1.0 / (z * z)
    series = w * polynomial(
        w, (1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0)
    )
    value = torch.log(z) - 0.5 / z - series - shift
    fraction = _past_integer(x)
    value = torch.where(reflected, value - math.pi / torch.tan(math.pi * fraction), value)
    value = torch.where(reflected & (fraction == 0.0), math.nan, value)
    value = torch.where(x == math.inf, math.inf, value)
    return torch.where(x == 0.0, torch.copysign(torch.full_like(x, math.inf), -x), value)


# B_2, B_4, ...
_BERNOULLI = (1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0)


def _cotangent_derivative(n: int) -> list[float]:
    """Coefficients, from the highest power on, of the polynomial in cot(x) that is its n-th derivative."""
    ascending = [0.0, 1.0]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(ascending)][1:]
        ascending = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            ascending[k] -= c
            ascending[k + 2] -= c
    return ascending[::-1]


def _derivative_of_digamma(n: int, x: torch.Tensor) -> torch.Tensor:
    """n! sum of (x + k)^-(n + 1) but for its sign: ten terms, then Euler and Maclaurin; reflection below 0.5."""

    def power(value: torch.Tensor, exponent: int) -> torch.Tensor:
        return functools.reduce(torch.mul, [value] * exponent)

    reflected = x < 0.5
    z = torch.where(reflected, 1.0 - x, x)
    terms = [power(1.0 / (z + k), n + 1) for k in range(10)]
    w = 1.0 / (z + 10.0)
    series = [b * math.factorial(2 * k + n + 1) / (math.factorial(2 * k + 2) * math.factorial(n))
              for k, b in enumerate(_BERNOULLI)]  # fmt: skip
    tail = power(w, n) * (1.0 / n + 0.5 * w + w * w * polynomial(w * w, series[::-1]))
    value = math.factorial(n) * (functools.reduce(torch.add, terms) + tail)
    cotangent = 1.0 / torch.tan(math.pi * _past_integer(x))
    turned = -(math.pi ** (n + 1)) * polynomial(cotangent, _cotangent_derivative(n))
    # (-1)^(n + 1) is the sign of the sum, (-1)^n that of its mirror image.
    sign = 1.0 if n % 2 else -1.0
    return torch.where(reflected, turned - value, sign * value)


# lgamma(1 + t) / t for |t| <= 1/2.
_LGAMMA_NEAR_ONE = (
    -0.24180563401438954, 0.24887978656777288, 0.2121143276249345, -0.21784522721159488,
    -0.1860437432140865, 0.19164667247429906, 0.01651198209887316, -0.016423321859004927,
    -0.058065603982138676, 0.0604480395430051, -0.04495588106711661, 0.047262865873375186,
    -0.05298133871594109, 0.055915126213946904, -0.05879089238051795, 0.062466952204530614,
    -0.06667093978988506, 0.07143524203437863, -0.07693241121304217, 0.08335373243821222,
    -0.0909540204690803, 0.1000994609278955, -0.11133426580344366, 0.12550966945679506,
    -0.14404989676959207, 0.16955717699817474, -0.20738555102867004, 0.2705808084277805,
    -0.40068563438653143, 0.8224670334241132, -0.5772156649015329,
)  # fmt: skip
# lgamma(2 + t) / (t * (t + 1)) for |t| <= 1/2.
_LGAMMA_NEAR_TWO = (
    2.8331179755524595e-08, -5.9191034539430366e-08, 8.673205951095157e-08, -1.8231384052730353e-07,
    4.0516857334255604e-07, -8.559853958872399e-07, 1.8078213148269973e-06, -3.846729097394708e-06,
    8.222223538994353e-06, -1.7661749741053172e-05, 3.8168886839303915e-05, -8.309512065991473e-05,
    0.00018255263918030617, -0.00040570739776849235, 0.0009153769222493582, -0.002108130833949211,
    0.004998641164697329, -0.012384192193371354, 0.03296500062115582, -0.10031730167435392, 0.42278433509846713,
)  # fmt: skip
# Stirling's series of lgamma in 1/z, past its first terms.
STIRLING = (
    -3617.0 / 122400.0, 1.0 / 156.0, -691.0 / 360360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0,
    1.0 / 12.0,
)  # fmt: skip


def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Stirling's series from 8 on; below, factors lead to [1.5, 2.5], where the zeros at 1 and 2 are factors of a
    polynomial. Reflection below -0.5."""
    reflected = x < -0.5
    z = torch.where(reflected, -x, x)  # of z + 1 no bit is lost where it matters
    # lgamma(z) = lgamma(1 + t) - log(z), lgamma(1 + t), lgamma(2 + t) + log(above)
    is_tiny, is_near_one = z < 0.5, z < 1.5
    t = torch.where(is_tiny, z, torch.where(is_near_one, z - 1.0, z - 2.0))
    above: Any = 1.0
    for k in range(1, 7):
        is_far = z >= 1.5 + k
        above = above * torch.where(is_far, z - float(k), 1.0)
        t = torch.where(is_far, z - float(k + 2), t)
    near_one = 0.0 + t * polynomial(t, _LGAMMA_NEAR_ONE) - torch.log(torch.where(is_tiny, z.abs(), 1.0))
    near_two = t * (t + 1.0) * polynomial(t, _LGAMMA_NEAR_TWO) + torch.log(above)
    small = torch.where(is_near_one, near_one, near_two)
    inverse = 1.0 / z
    series = polynomial(inverse * inverse, STIRLING) * inverse
    logarithm = torch.log(torch.where(z >= 8.0, z, 8.0))
    large = (z - 0.5) * (logarithm - 1.0) + (0.5 * math.log(2.0 * math.pi) - 0.5 + series)
    value = torch.where(z >= 8.0, large, small)
    value = torch.where(z == math.inf, math.inf, value)
    sine = torch.sin(math.pi * _past_integer(x)).abs()
    value = torch.where(reflected, math.log(math.pi) - torch.log(sine * z) - value, value)
    # All numbers from -2^52 down are integers, which are poles.
    return torch.where((x == math.inf) | (x <= -(2.0**52)), math.inf, value)


# lgamma(2 + t) / (t * (t + 1)) for |t| <= 1/2, to a third of a thousandth of a unit in the last place of float32.
_LGAMMA_NEAR_TWO_SINGLE = (
    4.441220600596784e-05, -9.649339339662811e-05, 0.00018094248392440206, -0.00040225296442764004,
    0.0009155555689553376, -0.0021085140532559913, 0.004998633132553101, -0.012384174964542118,
    0.03296500072183504, -0.1003173018903039, 0.42278433509846713,
)  # fmt: skip


def _lgamma_of_single(x: torch.Tensor) -> torch.Tensor:
    """For results of float32, of a wider operand, by one wide logarithm.

    Stirling's series from 4 on; below, factors lead to [1.5, 2.5], where the zeros at 1 and 2 are factors of a
    polynomial. Reflection below -3, where a step of the operand moves the result by more than narrow functions err.
    """
    reflected = x < -3.0
    z = torch.where(reflected, 1.0 - x, x)
    steps = torch.ceil(1.5 - z)
    factors = [torch.where(steps > float(k), z + float(k), 1.0) for k in range(5)]
    factors += [torch.where(z >= 1.5 + k, z - k, 1.0) for k in (1.0, 2.0)]
    product = ((factors[0] * factors[1]) * (factors[2] * factors[3])) * ((factors[4] * factors[5]) * factors[6])
    t = z + torch.clamp(steps, -2.0, 5.0) - 2.0
    large = z >= 4.0
    logarithm = torch.log(torch.where(large, z, product.abs()))
    small = t * (t + 1.0) * _even_and_odd(t, _LGAMMA_NEAR_TWO_SINGLE) + torch.where(z < 1.5, -logarithm, logarithm)
    inverse = 1.0 / z
    series = _even_and_odd(
        inverse * inverse,
        (-1.0 / 360360.0 * 691.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0),
    )
    stirling = (z - 0.5) * logarithm - z + 0.5 * math.log(2.0 * math.pi) + series * inverse
    value = torch.where(large, stirling, small)
    sine = torch.sin((math.pi * _past_integer(x)).to(torch.float32)).abs()
    value = torch.where(reflected, math.log(math.pi) - torch.log(sine).to(x.dtype) - value, value)
    return torch.where(x.isinf(), math.inf, value)


def _by_dtype(single: Callable[[torch.Tensor], torch.Tensor], double: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """By the type of the operand."""
    return lambda x: computed(double if x.dtype is torch.float64 else single)(x)


def _erfcx_of_single(x: torch.Tensor) -> torch.Tensor:
    return _erfcx(x, 0.0)


def _polygamma(n: int, x: torch.Tensor) -> Any:
    if n > 10:
        return NotImplemented
    return _digamma_of(x) if n == 0 else computed(functools.partial(_derivative_of_digamma, n))(x)


_digamma_of = computed(_digamma)


def special_functions() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.digamma.default: _digamma_of,
        aten.erfinv.default: _by_dtype(_erfinv_of_single, erfinv),
        aten.i0.default: computed(i0),
        aten.lgamma.default: _by_dtype(_lgamma_of_single, lgamma),
        aten.polygamma.default: _polygamma,
        aten.special_erfcx.default: _by_dtype(_erfcx_of_single, erfcx),
        aten.special_i0e.default: computed(_i0e),
        aten.special_i1.default: computed(i1),
        aten.special_i1e.default: computed(_i1e),
        aten.special_modified_bessel_i0.default: computed(i0),
        aten.special_modified_bessel_i1.default: computed(i1),
        aten.special_ndtri.default: _by_dtype(_ndtri_of_single, ndtri),
    }
