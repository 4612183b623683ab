"""Functions of tl.extra.libdevice that round down (rd), up (ru) or toward zero (rz)."""

from __future__ import annotations

from typing import Any

from torch_tile.formulas import rounding as _rounding
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import float32, float64, int32, int64, uint32, uint64

_MODES = {"rd": "down", "ru": "up", "rz": "toward zero"}
_TEXTS = {
    "add": "arg0 + arg1",
    "sub": "arg0 - arg1",
    "mul": "arg0 * arg1",
    "div": "arg0 / arg1",
    "fma": "arg0 * arg1 + arg2",
    "sqrt": "Square root",
    "rcp": "1 / arg0",
}
_CONVERSIONS = {
    "double2float": (float64, float32),
    "int2float": (int32, float32),
    "uint2float": (uint32, float32),
    "ll2float": (int64, float32),
    "ull2float": (uint64, float32),
    "ll2double": (int64, float64),
    "ull2double": (uint64, float64),
}


def _arithmetic(name: str) -> Any:
    kind, mode = name.split("_")

    def function(*arguments: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.extra import formulas_on_tiles

        return formulas_on_tiles.directed(name, *arguments)

    function.__doc__ = f"{_TEXTS[kind]}, rounded {_MODES[mode]}."
    return function


def _conversion(name: str) -> Any:
    kind, mode = name.split("_")
    source, to = _CONVERSIONS[kind]

    def function(arg0: Any, _builder: Any = None) -> tensor:
        from torch_tile.language.extra import formulas_on_tiles

        return formulas_on_tiles.float_of(arg0, source, to, mode)

    function.__doc__ = f"arg0, of type {source}, as {to}, rounded {_MODES[mode]}."
    return function


for _made, _names in (
    (_arithmetic, _rounding.NAMES),
    (_conversion, [f"{kind}_{mode}" for kind in _CONVERSIONS for mode in _MODES]),
):
    for _name in _names:
        globals()[_name] = _made(_name)
        globals()[_name].__name__ = _name
