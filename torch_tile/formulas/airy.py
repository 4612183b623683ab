"""Airy's function from Chebyshev series: of itself near 0, of modulus and phase to the left, of the decay to the right.

Computed in float64 by kernels for the CPU, as the functions of `special_functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_tile.formulas.bessel import single
from torch_tile.formulas.special_functions import chebyshev

aten = torch.ops.aten

# Over x in [-6, 2] in (x + 2)/4; over x > 2 in 2 * (2/x)^1.5 - 1, times 2 sqrt(pi) x^0.25 exp(2/3 x^1.5); P and Q over
# z = -x > 6 in 2 * (6/z)^3 - 1, Q times z^1.5.
# fmt: off
_AIRY_MIDDLE = (
    0.07981034257083895, 0.13358598577835648, -0.12888154225314424, -0.08776265494035469,
    -0.11786513948317262, 0.2494019918868029, -0.035635245648797415, -0.12552960424978643,
    0.07658320862153278, 0.006539826099616935, -0.023099786059506074, 0.0075040528747347115,
    0.0017030155672010565, -0.001847967273977794, 0.0003517624295647609, 0.00013635466079863891,
    -8.308790360342944e-05, 8.894157813861605e-06, 5.884144160957906e-06, -2.388680332415851e-06,
    1.1078940909561706e-07, 1.625312951027347e-07, -4.7480935940319924e-08, -1.754949228512617e-10,
    3.144514394466578e-09, -6.872528750687637e-10, -3.432139716305899e-11, 4.5120269871187276e-11,
    -7.505023274955363e-12, -7.320391388335262e-13, 4.998060740578426e-13, -6.330395765884145e-14,
    -9.638462850616974e-15, 4.403519218800548e-15, -4.1759243545597107e-16, -9.31695346064716e-17,
    3.1579001128543586e-17,
)
_AIRY_LARGE = (
    0.9844053049171552, -0.014792784850104199, 0.0007327177465426715, -6.12595423417825e-05,
    6.83476697557269e-06, -9.237229735403982e-07, 1.436225340438052e-07, -2.489319422322096e-08,
    4.709793440054328e-09, -9.583863708112733e-10, 2.0745855483677591e-10, -4.737267332192277e-11,
    1.1336099808224236e-11, -2.827706782319351e-12, 7.320712095125598e-13, -1.9599793911089723e-13,
    5.4101162570683925e-14, -1.5356466802223836e-14, 4.472340393300025e-15, -1.3338094674756681e-15,
    4.066582046456231e-16, -1.2655832256452886e-16, 4.0151263340158635e-17, -1.2969972135960766e-17,
)
_AIRY_P = (
    0.9998088477395531, -0.00019041677962134863, 7.267968168417445e-07, -8.485426967529796e-09,
    1.9144545982950886e-10, -6.778493941405162e-12, 3.345666079656652e-13, -2.1345137724465704e-14,
    1.6718079441151791e-15, -1.5491724858625586e-16, 1.6524273492513008e-17,
)
_AIRY_Q = (
    0.10387651684051291, -0.0002879909356975244, 2.1216727511023376e-06, -3.611462768155705e-08,
    1.0549703211282042e-09, -4.5298756935196255e-11, 2.6022545484073646e-12, -1.8791698706635503e-13,
    1.6329576763679495e-14, -1.6540156927658157e-15, 1.9064995404020148e-16, -2.4547630511488525e-17,
    3.47933405835386e-18,
)
# fmt: on


def airy_ai(x: torch.Tensor) -> torch.Tensor:
    middle = chebyshev((x.clamp(-6.0, 2.0) + 2.0) * 0.25, _AIRY_MIDDLE)

    right = x.clamp(min=2.0)
    root = torch.sqrt(right)
    power = right * root
    decay = torch.exp(-2.0 / 3.0 * power) / (2.0 * math.sqrt(math.pi) * torch.sqrt(root))
    large = chebyshev(2.0 * math.sqrt(8.0) / power - 1.0, _AIRY_LARGE) * decay

    z = (-x).clamp(min=6.0)
    root = torch.sqrt(z)
    power = z * root
    angle = 2.0 / 3.0 * power - 0.25 * math.pi
    t = 432.0 / (power * power) - 1.0
    wave = torch.cos(angle) * chebyshev(t, _AIRY_P) + torch.sin(angle) * chebyshev(t, _AIRY_Q) / power
    left = wave / (math.sqrt(math.pi) * torch.sqrt(root))

    value = torch.where(x > 2.0, large, torch.where(x < -6.0, left, middle))
    return torch.where(x.isinf(), math.nan, value)  # as ATen's


def airy_functions() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition."""
    return {aten.special_airy_ai.default: single(airy_ai)}
