"""Every knob, once: name, type, default, environment variable, meaning, and whether compiled code depends on it.

A knob is set for the process here (``torch_tile.config.fusion = False``), by its environment variable, or for one function with
``torch.compile(..., options={"fusion": False})``. The environment is read here and nowhere else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from torch_tile.errors import OptionError


@dataclasses.dataclass(frozen=True)
class Knob:
    name: str
    type: type
    default: Any
    environment: str | None
    """Environment variable, or None."""
    doc: str
    is_key: bool = False
    """Passed to the compiler and part of the cache key."""

    def parse(self, value: Any, source: str) -> Any:
        if isinstance(value, self.type) and not (self.type is int and isinstance(value, bool)):
            return value
        if isinstance(value, str):
            if self.type is bool and value.lower() in _BOOLEANS:
                return _BOOLEANS[value.lower()]
            if self.type is int:
                with contextlib.suppress(ValueError):
                    return int(value)
        raise OptionError(f"{source} expected {self.type.__name__}, got {value!r} ({self.doc})")


_BOOLEANS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "": False,
}


def _default_cache_dir() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return str(pathlib.Path(base) / "torch_tile")


KNOBS: tuple[Knob, ...] = (
    Knob(
        "strict", bool, False, "TORCH_TILE_STRICT", "raise on compile errors instead of running the graph in eager mode"
    ),
    Knob(
        "fusion", bool, True, "TORCH_TILE_FUSION", "share kernels between ops; off gives one kernel per op", is_key=True
    ),
    Knob(
        "emulate_precision_casts",
        bool,
        False,
        "TORCH_TILE_EMULATE_PRECISION_CASTS",
        "round float16 and bfloat16 after every op as eager does",
        is_key=True,
    ),
    Knob(
        "fallback_random", bool, False, "TORCH_TILE_FALLBACK_RANDOM", "draw random numbers with eager's own generators"
    ),
    Knob("cache", bool, True, "TORCH_TILE_CACHE", "keep compiled graphs and kernels on disk"),
    Knob("cache_dir", str, _default_cache_dir(), "TORCH_TILE_CACHE_DIR", "folder of the disk cache"),
    Knob(
        "cache_limit_bytes",
        int,
        4 << 30,
        "TORCH_TILE_CACHE_LIMIT_BYTES",
        "size beyond which least recently used entries go; 0 for no limit",
    ),
    Knob("force_compile", bool, False, "TORCH_TILE_FORCE_COMPILE", "compile even what the disk cache has"),
    Knob(
        "debug",
        bool,
        False,
        "TILE_COMPILE_DEBUG",
        "write every stage of every graph to torch's debug folder; TORCH_COMPILE_DEBUG does it too",
    ),
    Knob("poison", bool, False, "TORCH_TILE_POISON", "fill freed buffers with NaN, to find uses after free"),
    Knob("target", str, "host", "TORCH_TILE_TARGET", "processor to compile for, by LLVM's name", is_key=True),
    Knob(
        "threads", int, 0, "TORCH_TILE_COMPILE_THREADS", "threads that compile kernels; 0: one per processor, at most 8"
    ),
)
_BY_NAME: Mapping[str, Knob] = types.MappingProxyType({knob.name: knob for knob in KNOBS})

MODES: Mapping[str, Mapping[str, Any]] = types.MappingProxyType(
    {
        "default": {},
        "lite": {},
        "reduce-overhead": {},
        "max-autotune": {},
        "max-autotune-no-cudagraphs": {},
    }
)
"""What each mode of torch.compile sets."""

MODES_WITHOUT_EFFECT = frozenset(name for name, settings in MODES.items() if name != "default" and not settings)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The values of all knobs for one compile."""

    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    def compiler_options(self) -> dict[str, str]:
        """What the compiler is told; all of it is part of the cache key."""
        options = {}
        for knob in KNOBS:
            value = self.values[knob.name]
            # Defaults are left out, so that a new knob does not change the key of what was compiled before.
            if knob.is_key and value != knob.default:
                options[knob.name] = str(value).lower() if knob.type is bool else str(value)
        return options


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
    """Values for one compile: defaults, then the environment and this module's attributes, then the mode, then ``options``.

    Raises:
        OptionError: an unknown mode or option, or a value of the wrong type.
    """
    values = {knob.name: getattr(sys.modules[__name__], knob.name) for knob in KNOBS}
    values["debug"] = values["debug"] or os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"
    if mode is not None:
        if mode not in MODES:
            raise OptionError(f"unknown mode {mode!r} for backend 'tile'; known are {', '.join(MODES)}")
        values.update(MODES[mode])
    for name, value in (options or {}).items():
        knob = _BY_NAME.get(name)
        if knob is None:
            raise OptionError(f"unknown option {name!r} for backend 'tile'; known are {', '.join(sorted(_BY_NAME))}")
        values[name] = knob.parse(value, f"option {name!r}")
    return Settings(types.MappingProxyType(values))


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Set knobs for the duration of a block."""
    module = sys.modules[__name__]
    saved = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, _BY_NAME[name].parse(value, f"config.{name}"))
        yield
    finally:
        for name, value in saved.items():
            setattr(module, name, value)


def _read_environment() -> None:
    module = sys.modules[__name__]
    for knob in KNOBS:
        text = os.environ.get(knob.environment) if knob.environment else None
        value = knob.default if text is None else knob.parse(text, f"environment variable {knob.environment}")
        setattr(module, knob.name, value)


_read_environment()
