"""Bessel functions from Chebyshev series: of the even part near 0, of modulus and phase far from it.

Computed in float64 by kernels for the CPU, as the functions of `special.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.special import chebyshev, computed, i0, i1

aten = torch.ops.aten

# J and Y over x in [0, 8] in x*x/32 - 1, without the terms in log(x) and 1/x, J1 and Y1 divided by x. P and Q over
# x > 8 in 2 * (8/x)^2 - 1, Q times x. K over x in [0, 2] in x*x/2 - 1 without the term in log(x), K1 times x; over
# x > 2 in 4/x - 1, times exp(x) * sqrt(x).
# fmt: off
_J0_SMALL = (
    0.15772797147489007, -0.008723442352852223, 0.2651786132033368, -0.3700949938726498,
    0.15806710233209717, -0.03489376941140888, 0.004819180069467539, -0.0004606261662061596,
    3.246032882082229e-05, -1.761946907521311e-06, 7.608163562867159e-08, -2.679253243600287e-09,
    7.848650476482275e-11, -1.9434705462260615e-12, 4.05730796056062e-14, -1.1541072049048534e-16,
    -9.030954737167718e-16, 7.794361420589167e-16, -1.1737411106757765e-15, 7.312090111615449e-16,
    -1.3049548479498167e-15, 9.027052145675838e-16, -1.4219016868218433e-15, 1.0558050833241017e-15,
    -1.3251305575257429e-15, 8.801292257298728e-16, -1.3281708215290884e-15, 9.4775743609056e-16,
    -1.3520777844596757e-15,
)
_J1_SMALL = (
    0.08104484632565814, -0.14897514506765214, 0.16099926235720968, -0.08268049176681791,
    0.022213639654966002, -0.0036469406007692386, 0.0004050337728354457, -3.255554866853442e-05,
    1.9858774049158553e-06, -9.521984748985619e-08, 3.6871336357311425e-09, -1.1780250855256954e-10,
    3.1599564582845775e-12, -7.198780192068738e-14, 1.1314115800954387e-15, 2.6760189406924654e-16,
    -4.0052134461280133e-16, 4.0794452835236145e-16, -5.445720979623755e-16, 5.151227022316434e-16,
    -6.264182580302041e-16, 5.754612450758488e-16, -6.515188023996496e-16, 5.656035416574791e-16,
    -6.169634454109225e-16, 5.364473854218587e-16, -6.096669317142271e-16, 5.505820934633378e-16,
    -6.023641619587536e-16,
)
_Y0_SMALL = (
    -0.03314611320328491, -0.2744743055297451, 0.17903431407718265, 0.2615673462550466,
    -0.17730201278114358, 0.047196689595763446, -0.007287962479552087, 0.0007531135932577087,
    -5.632079141050168e-05, 3.2065325375202674e-06, -1.440723327067081e-07, 5.2487948020209275e-09,
    -1.583754738275869e-10, 4.026279524133162e-12, -8.736231294716343e-14, 1.4772631763034918e-15,
)
_Y1_SMALL = (
    0.0025380132357417915, -0.01608717304766878, -0.09591204536083071, 0.08445197259652347,
    -0.02832812394459438, 0.005289897544167113, -0.0006414551451326414, 5.505982873337366e-05,
    -3.5380800186552234e-06, 1.770780455238527e-07, -7.110549979667645e-09, 2.344337418842339e-10,
    -6.465052357691925e-12, 1.5137001818106673e-13, -2.9126219679607054e-15, -4.8441440544530965e-17,
    1.9487175456247987e-16, -1.3846330683073177e-16, 2.4253892420732903e-16, -1.0803686856606109e-16,
    2.5031161897984283e-16, -1.3901228476522698e-16, 2.9363864223790503e-16, -1.8214122906915285e-16,
    2.7790872730134416e-16, -1.5055812578352369e-16, 2.6859901569646473e-16, -1.6593727761749779e-16,
    2.9605546570666505e-16,
)
_P0 = (
    0.9994603493475187, -0.0005365220468144029, 3.075184788080952e-06, -5.170594662805901e-08,
    1.6306476827631943e-09, -7.864184100949943e-11, 5.1687450570167536e-12, -4.317974379822719e-13,
    4.3683102772117193e-14, -6.116476457801993e-15, -1.281850434971627e-16, -6.531617793546852e-16,
    -1.2302182502499628e-15, -1.0436973703432232e-15, -1.6527721446107043e-15, -6.220280988701641e-16,
    -2.5068730957046665e-15,
)
_Q0 = (
    -0.12444683684325017, 0.0005470815965120809, -5.931599815834472e-06, 1.4378072075272065e-07,
    -5.8185700242931615e-09, 3.385969967192333e-10, -2.657039617701489e-11, 3.2467949098993294e-12,
    -1.0302604911013654e-12, 7.226936924811727e-13, -6.200678352888439e-13, 5.352223549890817e-13,
    -4.5075113391707376e-13, 3.7472862397322897e-13, -2.922280874828927e-13, 1.975667811431128e-13,
    -9.822201191605577e-14,
)
_P1 = (
    1.000903040860012, 0.000898989833089687, -3.987284303750095e-06, 6.177634207700687e-08,
    -1.8718943045244757e-09, 8.817283608037556e-11, -5.709275758471073e-12, 4.73252028544263e-13,
    -5.119453432102893e-14, 7.589905583229005e-15, -3.4684303734946382e-15, 1.1683837856303393e-15,
    -3.594756029688724e-15, 1.4499454443150369e-15, -3.4509615344627594e-15, 1.3407043461624515e-16,
    -2.596003684918808e-15,
)
_Q1 = (
    0.3742222965561685, -0.000770217883704002, 7.310891986041322e-06, -1.676780338557444e-07,
    6.5831417671453496e-09, -3.747050549746671e-10, 2.7927049508122752e-11, -2.421568843588584e-12,
    1.0351803894356209e-13, 1.3277666326623507e-13, -1.4844194613484434e-13, 1.3876538823746275e-13,
    -1.218483770985938e-13, 9.871449262306896e-14, -7.241440445801001e-14, 4.85533659367265e-14,
    -2.766133806218904e-14,
)
_K0_SMALL = (
    -0.2676636966169514, 0.3442898999246285, 0.035979936515361514, 0.0012646154114468646,
    2.286212103121249e-05, 2.5347910779507304e-07, 1.9045165037948785e-09, 1.0349385411661572e-11,
    4.288565742540731e-14, -3.49860598778619e-16, 2.703644909962253e-16, -6.367407682081011e-16,
    5.168063268201433e-16, -8.305637691950978e-16, 6.768828797647184e-16, -9.144964099659362e-16,
    5.999409927464858e-16,
)
_K1_SMALL = (
    0.7626501136694737, -0.3531559607765449, -0.12261118082265729, -0.006975723859639738,
    -0.00017302889575140527, -2.4334061414235622e-06, -2.2133876668008886e-08, -1.4114852594660887e-10,
    -6.675104702739236e-13, -1.918751925597534e-15, -9.008121692050619e-16, 6.645248757939977e-16,
    -1.2656110236379617e-15, 8.123635326276823e-16, -1.649300452316924e-15, 9.554484647551554e-16,
    -1.5681060885893732e-15,
)
_K0_LARGE = (
    1.2201515410329775, -0.03144810131196447, 0.0015698838857299297, -0.00012849549581626167,
    1.394981371858411e-05, -1.8317555227470405e-06, 2.7668136366955766e-07, -4.6604898993759634e-08,
    8.57403364077967e-09, -1.6975344642500638e-09, 3.5773876065759954e-10, -7.957483417717339e-11,
    1.8558402126883822e-11, -4.514589419148163e-12, 1.139604539767172e-12, -2.978907443299073e-13,
    7.884732293595951e-14, -2.225459959684104e-14, 4.247498410340115e-15, -1.8014263915692057e-15,
    -1.2337801031721498e-15, -1.5310333646040466e-16, -2.4603974771531694e-15, 5.730183352904034e-17,
    -3.2948554279198192e-15, 1.2892912544034077e-16, -3.0155089894657477e-15, 7.879002110243047e-17,
    -2.9940208018923577e-15, 1.0744093786695064e-16, -3.164135620181696e-15,
)
_K1_LARGE = (
    1.3603130952422213, 0.1039237365768173, -0.002857816859622963, 0.0001952155184712654,
    -1.936197974197124e-05, 2.4064849478019453e-06, -3.5019606062314965e-07, 5.7410841227965097e-08,
    -1.0345762812755032e-08, 2.0150497113196626e-09, -4.190364883040243e-10, 9.218306046814141e-11,
    -2.1300939506875606e-11, 5.139573354720215e-12, -1.2899359000306092e-12, 3.346283823512133e-13,
    -9.157549270859759e-14, 2.4575323854767174e-14, -9.340198865233575e-15, 1.8945418710538964e-15,
    -2.6036520609757705e-15, -2.4174211020063893e-17, -2.840022124283062e-15, -2.1488187573390127e-16,
    -3.660154616667452e-15, -2.7934643845407164e-16, -3.38797090740451e-15, -2.936718968363317e-16,
    -3.35215726144886e-15, -1.9339368816051114e-16, -3.4739236576980703e-15,
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
    return torch.where(x < 0, -value, value)


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
    series = 1.0 + square * (-1.0 / 6.0 + square * (1.0 / 120.0 + square * (-1.0 / 5040.0 + square * (1.0 / 362880.0))))
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
