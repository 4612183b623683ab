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

aten = torch.ops.aten

# Chebyshev coefficients, interpolated at Chebyshev points: exp(-x) I(x) over x in [0, 8] in x/4 - 1, divided by x for
# I1; exp(-x) sqrt(x) I(x) over x > 8 in 16/x - 1.
# fmt: off
_I0E_SMALL = (
    0.338397637204738, -0.3046826723431984, 0.17162090152220882, -0.09490109704804763,
    0.04930528423967069, -0.023737414805899394, 0.010546460394594856, -0.004324309995050384,
    0.0016394756169409992, -0.0005763755745382607, 0.00018850288509534706, -5.754195010044151e-05,
    1.6448448070204775e-05, -4.416738358057278e-06, 1.1173875385853072e-06, -2.670793849367591e-07,
    6.046994954989302e-08, -1.3000249655188434e-08, 2.6598231679799367e-09, -5.189791684157924e-10,
    9.675771788861683e-11, -1.7267890515124008e-11, 2.954503789687487e-12, -4.851884574608713e-13,
    7.610688551643774e-14, -1.1198622103884786e-14, 1.068305129585022e-15, 2.524473013419604e-16,
    -6.37517686514384e-16, 4.902648054865568e-16, -6.947817550560359e-16, 5.145313845627388e-16,
    -7.16626256875511e-16, 5.395424116865882e-16, -7.347930077977758e-16, 5.799563543576431e-16,
    -7.615145499773886e-16, 5.23151091075803e-16, -6.94479280842518e-16, 4.2849991020818693e-16,
)
_I0E_LARGE = (
    0.40224520550705434, 0.003369116478255688, 6.889758346910112e-05, 2.8913705208236504e-06,
    2.048918588190166e-07, 2.266668989646194e-08, 3.396231765659e-09, 4.940602276499411e-10,
    1.1888740785488088e-11, -3.14991524926914e-11, -1.3216305827512542e-11, -1.7941862281592844e-12,
    7.174193778729838e-13, 3.852743521040988e-13, 1.454392162258955e-14, -4.1515996989411566e-14,
    -1.0582011457570064e-14, 3.793790678433392e-15, 4.631216045579225e-16, -3.425831047414769e-16,
    -1.7763568394002505e-15, 9.516197353929913e-18, -1.6867459809840771e-15, -2.2204460492503132e-17,
    -1.7521698377923452e-15, -1.030921380009074e-17, -1.5939630567832605e-15, -1.586032892321652e-17,
    -1.4194994386278788e-15, -1.1102230246251566e-17, -1.395708945243054e-15, -6.3441315692866086e-18,
    -1.6161675172757636e-15, 7.930164461608261e-19, -1.6217186323988894e-15,
)
_I1E_SMALL = (
    0.12629359322181685, -0.17641651835783406, 0.10264365868984712, -0.052945981208095,
    0.024726449030626502, -0.010564084894626173, 0.004156422944312829, -0.001513572450631173,
    0.0005122859561684429, -0.00016176081582573455, 4.78156510752877e-05, -1.327316365583106e-05,
    3.4702513079090206e-06, -8.568720262503489e-07, 2.0032947510865352e-07, -4.445059103568115e-08,
    9.381537119969888e-09, -1.8872495085933125e-09, 3.6255880786645264e-10, -6.66347346394977e-11,
    1.1736026251806146e-11, -1.9837914943891124e-12, 3.221589659982783e-13, -5.0189425329340745e-14,
    7.320576526563103e-15, -8.393281821929571e-16, -1.3090178779651067e-16, 2.4753646848703274e-16,
    -2.953523945636423e-16, 2.8907153365245227e-16, -3.163897955921376e-16, 2.8658252093807114e-16,
    -3.075154867247842e-16, 2.864674936412044e-16, -3.042610402103711e-16, 2.8311854150783383e-16,
    -3.1893601220207656e-16, 2.774524524910425e-16, -2.8160356491476597e-16, 2.1745559272991247e-16,
)
_I1E_LARGE = (
    0.38928811750914, -0.009761097491361476, -0.00011058893876265685, -3.882564808880115e-06,
    -2.512236239038401e-07, -2.6314688466350894e-08, -3.835380660685165e-09, -5.589743334866171e-10,
    -1.897536096505194e-11, 3.2526054865351333e-11, 1.4125340579746697e-11, 2.0356303944067478e-12,
    -7.204364089424027e-13, -4.083336843255633e-13, -2.1815882433884326e-14, 4.2743586448068527e-14,
    9.414691248821327e-15, -3.781102415294819e-15, -3.1688937188586613e-15, 3.7113169680326663e-16,
    -1.1593900442871278e-15, -4.758098676964957e-18, -1.7248107703997969e-15, 4.837400321581039e-17,
    -1.6696961273916194e-15, 4.4408920985006264e-17, -1.5495541357982542e-15, 3.6478756523398e-17,
    -1.3830206821044807e-15, 4.4408920985006264e-17, -1.344955892688761e-15, 2.6962559169468087e-17,
    -1.563828431829149e-15, 2.8548592061789737e-17, -1.4539956540358747e-15,
)
_ERFCX = (
    1.177578934567402, -0.00459005458064645, -0.0842491333665177, 0.05920993999819182,
    -0.026658668435305642, 0.009074997670705097, -0.002413163540417689, 0.0004907758365258584,
    -6.916973302555101e-05, 4.1390279860266885e-06, 7.740383054603557e-07, -2.188640105013796e-07,
    1.0764998412667975e-08, 4.521959709359601e-09, -7.754408007533903e-10, -6.31809907580544e-11,
    2.868650349246014e-11, 1.9453257725152727e-13, -9.665553098059357e-13, 3.244094252507084e-14,
    3.3013421550627057e-14, -1.970680138706405e-15, -2.1473660226847046e-15, -3.1106400983053336e-17,
    -1.2871948435672166e-15, -7.827503956065359e-17, -1.112896018033203e-15, -1.34679203422892e-16,
    -1.3387756398178369e-15, -7.52803058149909e-17, -1.2997590818862426e-15, -7.619490967477702e-17,
    -1.2807241701376324e-15, -2.7256583549870968e-17, -1.2686001115453134e-15, -3.870225884148726e-17,
    -1.4663164216018345e-15, -8.222719083794526e-17, -1.6011268428206316e-15,
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


def _polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Coefficients from the highest power on."""
    value: Any = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    result: torch.Tensor = value
    return result


def _even_and_odd(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """As _polynomial, in two chains side by side."""
    square = x * x
    even, odd = _polynomial(square, coefficients[-1::-2][::-1]), _polynomial(square, coefficients[-2::-2][::-1])
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
    value = torch.where(
        size <= 8.0,
        chebyshev(small * 0.25 - 1.0, _I1E_SMALL) * small,
        chebyshev(16.0 / large - 1.0, _I1E_LARGE) * torch.rsqrt(large),
    )
    return torch.where(x < 0, -value, value)


def _scaled_up(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    # exp alone may overflow where the product does not.
    half = torch.exp(x.abs() * 0.5)
    return value * half * half


def i0(x: torch.Tensor) -> torch.Tensor:
    return _scaled_up(_i0e(x), x)


def i1(x: torch.Tensor) -> torch.Tensor:
    return _scaled_up(_i1e(x), x)


def erfinv(y: torch.Tensor) -> torch.Tensor:
    """A rational guess and two Newton steps, as ATen's calc_erfinv."""
    size = y.abs()
    z = y * y
    central = y * _polynomial(z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    central = central / _polynomial(z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    z = torch.sqrt(-torch.log((1.0 - size) * 0.5))
    tail = _polynomial(z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    tail = torch.copysign(tail / _polynomial(z, (1.637067800, 3.543889200, 1.0)), y)
    x = torch.where(size <= 0.7, central, tail)
    for _ in range(2):
        x = x - (torch.erf(x) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-x * x))
    x = torch.where(size == 1.0, torch.copysign(torch.full_like(y, math.inf), y), x)
    return torch.where(size > 1.0, math.nan, x)


def ndtri(p: torch.Tensor) -> torch.Tensor:
    """Acklam's rational approximation of the lower half, and two steps of Halley's method on erfc."""
    upper = p > 0.5
    q = torch.where(upper, 1.0 - p, p)
    tail = torch.sqrt(-2.0 * torch.log(q))
    low = _polynomial(
        tail,
        (-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
         -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00),
    )  # fmt: skip
    low = low / _polynomial(
        tail, (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00, 1.0)
    )
    centre = q - 0.5
    r = centre * centre
    middle = centre * _polynomial(
        r,
        (-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02,
         1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00),
    )  # fmt: skip
    middle = middle / _polynomial(
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


def erfcx(x: torch.Tensor) -> torch.Tensor:
    """(1 + 2x) exp(x^2) erfc(x) in (x - k) / (x + k) (Shepherd and Laframboise 1981); reflected for x < 0."""
    size = x.abs()
    capped = size.clamp(max=1e100)
    value = chebyshev((capped - 3.75) / (capped + 3.75), _ERFCX) / (1.0 + 2.0 * size)
    return torch.where(x < 0, 2.0 * torch.exp(x * x) - value, value)


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
    series = w * _polynomial(
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
    tail = power(w, n) * (1.0 / n + 0.5 * w + w * w * _polynomial(w * w, series[::-1]))
    value = math.factorial(n) * (functools.reduce(torch.add, terms) + tail)
    cotangent = 1.0 / torch.tan(math.pi * _past_integer(x))
    turned = -(math.pi ** (n + 1)) * _polynomial(cotangent, _cotangent_derivative(n))
    # (-1)^(n + 1) is the sign of the sum, (-1)^n that of its mirror image.
    sign = 1.0 if n % 2 else -1.0
    return torch.where(reflected, turned - value, sign * value)


def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Stirling's series past 12, where a product of the skipped factors brings smaller ones; reflection below 0.5."""
    reflected = x < 0.5
    z = torch.where(reflected, 1.0 - x, x)
    product: Any = 1.0
    for _ in range(12):
        small = z < 12.0
        product = product * torch.where(small, z, 1.0)
        z = torch.where(small, z + 1.0, z)
    w = 1.0 / (z * z)
    series = _polynomial(
        w, (-1.0 / 360360.0 * 691.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0)
    )
    value = (z - 0.5) * torch.log(z) - z + 0.5 * math.log(2.0 * math.pi) + series / z - torch.log(product)
    value = torch.where(z == math.inf, math.inf, value)
    sine = torch.sin(math.pi * _past_integer(x)).abs()
    value = torch.where(reflected, math.log(math.pi) - torch.log(sine) - value, value)
    return torch.where(x.isinf(), math.inf, value)


# lgamma(2 + t) / (t * (t + 1)) for |t| <= 1/2, to a third of a thousandth of a unit in the last place of float32.
_LGAMMA_NEAR_TWO = (
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
    small = t * (t + 1.0) * _even_and_odd(t, _LGAMMA_NEAR_TWO) + torch.where(z < 1.5, -logarithm, logarithm)
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


def _lgamma_of(x: torch.Tensor) -> torch.Tensor:
    return computed(lgamma if x.dtype == torch.float64 else _lgamma_of_single)(x)


def _polygamma(n: int, x: torch.Tensor) -> Any:
    if n > 10:
        return NotImplemented
    return _digamma_of(x) if n == 0 else computed(functools.partial(_derivative_of_digamma, n))(x)


_digamma_of = computed(_digamma)


def special_functions() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.digamma.default: _digamma_of,
        aten.erfinv.default: computed(erfinv),
        aten.i0.default: computed(i0),
        aten.lgamma.default: _lgamma_of,
        aten.polygamma.default: _polygamma,
        aten.special_erfcx.default: computed(erfcx),
        aten.special_i0e.default: computed(_i0e),
        aten.special_i1.default: computed(i1),
        aten.special_i1e.default: computed(_i1e),
        aten.special_modified_bessel_i0.default: computed(i0),
        aten.special_modified_bessel_i1.default: computed(i1),
        aten.special_ndtri.default: computed(ndtri),
    }
