"""Bessel functions from Chebyshev series: of the even part near 0, of modulus and phase far from it.

Computed in float64 by kernels for the CPU, as the functions of `special_functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.special_functions import chebyshev, computed, i0, i1

aten = torch.ops.aten

# J and Y over x in [0, 8] in x*x/32 - 1, without the terms in log(x) and 1/x, J1 and Y1 divided by x. P and Q over
# x > 8 in 2 * (8/x)^2 - 1, Q times x. K over x in [0, 2] in x*x/2 - 1 without the term in log(x), K1 times x; over
# x > 2 in 4/x - 1, times exp(x) * sqrt(x).
# fmt: off
_J0_SMALL = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)
_J1_SMALL = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)
_Y0_SMALL = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663,
    -0.17730201278114358, 0.04719668959576339, -0.007287962479552079, 0.0007531135932577742,
    -5.632079141056987e-05, 3.206532537654801e-06, -1.44072332740187e-07, 5.248794787330516e-09,
    -1.5837552541812015e-10, 4.02633081830612e-12, -8.747341203310769e-14, 1.6434898714919468e-15,
    -2.6977881152566837e-17,
)
_Y1_SMALL = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346,
    -0.028328123944594365, 0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05,
    -3.53808001868935e-06, 1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10,
    -6.4651518414115946e-12, 1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
    -8.224911372021585e-19,
)
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17,
)
_Q0 = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18, 1.0473158973776097e-18,
)
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
    -1.7312313216116335e-17,
)
_Q1 = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18,
)
_K0_SMALL = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)
_K1_SMALL = (
    0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864,
    -0.0001730288957513052, -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10,
    -6.666901694199329e-13, -2.427449850519366e-15, -7.023863479386288e-18,
)
_K0_LARGE = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
    1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13,
    8.032890775068375e-14, -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15,
    5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
    5.3004337711773354e-18,
)
_K1_LARGE = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11,
    -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13,
    -8.976705182010146e-14, 2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17, 1.7940510478863572e-17,
    -5.7567444820733025e-18,
)
# fmt: on


def _near(x: torch.Tensor) -> torch.Tensor:
    return x * x * (1.0 / 32.0) - 1.0


def _far(x: torch.Tensor, p: Any, q: Any, shift: float, is_second: bool) -> torch.Tensor:
    """sqrt(2 / (pi x)) times P cos - Q sin of x - shift, or P sin + Q cos for the second kind."""
    t = 128.0 / (x * x) - 1.0
    modulus, phase = chebyshev(t, p), chebyshev(t, q) / x
    cosine, sine = torch.cos(x - shift), torch.sin(x - shift)
    value = modulus * sine + phase * cosine if is_second else modulus * cosine - phase * sine
    return value * torch.sqrt(2.0 / math.pi / x)


def _j0_near(x: torch.Tensor) -> torch.Tensor:
    return chebyshev(_near(x), _J0_SMALL)


def _j1_near(x: torch.Tensor) -> torch.Tensor:
    return chebyshev(_near(x), _J1_SMALL) * x


def _split(x: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    return x.clamp(max=limit), x.clamp(min=limit)


def j0(x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    near, far = _split(size, 8.0)
    return torch.where(size <= 8.0, _j0_near(near), _far(far, _P0, _Q0, math.pi / 4, False))


def j1(x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    near, far = _split(size, 8.0)
    value = torch.where(size <= 8.0, _j1_near(near), _far(far, _P1, _Q1, 3 * math.pi / 4, False))
    return value * torch.copysign(torch.full_like(x, 1.0), x)


def y0(x: torch.Tensor) -> torch.Tensor:
    near, far = _split(x, 8.0)
    low = chebyshev(_near(near), _Y0_SMALL) + 2.0 / math.pi * torch.log(near) * _j0_near(near)
    value = torch.where(x <= 8.0, low, _far(far, _P0, _Q0, math.pi / 4, True))
    return torch.where(x == 0.0, -math.inf, torch.where(x < 0.0, math.nan, value))


def y1(x: torch.Tensor) -> torch.Tensor:
    near, far = _split(x, 8.0)
    low = chebyshev(_near(near), _Y1_SMALL) * near
    low = low + 2.0 / math.pi * (torch.log(near) * _j1_near(near) - 1.0 / near)
    value = torch.where(x <= 8.0, low, _far(far, _P1, _Q1, 3 * math.pi / 4, True))
    return torch.where(x == 0.0, -math.inf, torch.where(x < 0.0, math.nan, value))


def _k0(x: torch.Tensor, is_scaled: bool) -> torch.Tensor:
    near, far = _split(x, 2.0)
    low = chebyshev(near * near * 0.5 - 1.0, _K0_SMALL) - torch.log(near * 0.5) * i0(near)
    high = chebyshev(4.0 / far - 1.0, _K0_LARGE) * torch.rsqrt(far)
    value = (
        torch.where(x <= 2.0, low * torch.exp(near), high)
        if is_scaled
        else torch.where(x <= 2.0, low, high * torch.exp(-far))
    )
    return torch.where(x == 0.0, math.inf, torch.where(x < 0.0, math.nan, value))


def _k1(x: torch.Tensor, is_scaled: bool) -> torch.Tensor:
    near, far = _split(x, 2.0)
    low = chebyshev(near * near * 0.5 - 1.0, _K1_SMALL) / near + torch.log(near * 0.5) * i1(near)
    high = chebyshev(4.0 / far - 1.0, _K1_LARGE) * torch.rsqrt(far)
    value = (
        torch.where(x <= 2.0, low * torch.exp(near), high)
        if is_scaled
        else torch.where(x <= 2.0, low, high * torch.exp(-far))
    )
    return torch.where(x == 0.0, math.inf, torch.where(x < 0.0, math.nan, value))


def _spherical_j0(x: torch.Tensor) -> torch.Tensor:
    square = x * x
    series: torch.Tensor | float = 0.0
    for power in (14, 12, 10, 8, 6, 4, 2, 0):  # the next term is below float64's rounding for |x| < 0.5
        series = series * square + (-1.0) ** (power // 2) / math.factorial(power + 1)
    value = torch.where(x.abs() < 0.5, series, torch.sin(x) / x)
    return torch.where(x.isinf(), 0.0, value)


def single(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    """ATen's float64 functions are off by up to 3e-6, so that only its own result equals it."""

    def decomposition(x: torch.Tensor) -> Any:
        return NotImplemented if x.dtype is torch.float64 else computed(function)(x)

    return decomposition


def bessel_functions() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {
        aten.special_bessel_j0.default: single(j0),
        aten.special_bessel_j1.default: single(j1),
        aten.special_bessel_y0.default: single(y0),
        aten.special_bessel_y1.default: single(y1),
        aten.special_modified_bessel_k0.default: computed(lambda x: _k0(x, False)),
        aten.special_modified_bessel_k1.default: computed(lambda x: _k1(x, False)),
        aten.special_scaled_modified_bessel_k0.default: computed(lambda x: _k0(x, True)),
        aten.special_scaled_modified_bessel_k1.default: computed(lambda x: _k1(x, True)),
        aten.special_spherical_bessel_j0.default: computed(_spherical_j0),
    }
