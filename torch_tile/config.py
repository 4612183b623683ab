"""The table of options: name, type, default, environment variable, part of the cache key or not, documentation.

A knob is read as `config.get("strict")`, set for the process with `config.set("strict", True)`, and for one
torch.compile call with `options={"strict": True}`. The environment is read whenever a knob is asked for.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch_tile.errors import OptionError

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Knob:
    """One setting. `environment` lists variables by priority; a knob for the compiler is part of the cache key."""

    name: str
    type: type
    default: Any
    environment: tuple[str, ...]
    doc: str
    is_for_compiler: bool = False
    is_of_process: bool = False
    """There is one value for the process, which options of a torch.compile call cannot change."""
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        if self.type is bool:
            return text.strip().lower() not in ("", "0", "false", "no", "off")
        return self.check(self.type(text))

    def check(self, value: Any) -> Any:
        is_number = self.type in (int, float) and isinstance(value, int) and not isinstance(value, bool)
        if self.choices and value not in self.choices:
            raise OptionError(f"option {self.name!r} expected one of {', '.join(self.choices)}, got {value!r}")
        if isinstance(value, self.type) or is_number or (value is None and self.default is None):
            return value
        raise OptionError(f"option {self.name!r} expected {self.type.__name__}, got {value!r}")


def _default_cache_dir() -> str | None:
    """The user's cache folder; None where the user has no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if sys.platform != "darwin" and os.path.isabs(given):
        return os.path.join(given, "torch_tile")
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute():
        _say_once("the disk cache is off: HOME is not set, and the user has no entry in the list of users; "
                  "TORCH_TILE_CACHE_DIR names a folder")  # fmt: skip
        return None
    return str(home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "torch_tile")


def _say_once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        log.warning(message)


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("strict", bool, False, ("TORCH_TILE_STRICT",), "Raise instead of falling back to eager mode."),
        Knob(
            "fallback_random", bool, False, ("TORCH_TILE_FALLBACK_RANDOM",), "Random numbers of eager mode, not fused."
        ),
        Knob("cache", bool, True, ("TORCH_TILE_CACHE",), "Use the disk cache, for whatever is kept there."),
        Knob(
            "cache_dir",
            str,
            None,
            ("TORCH_TILE_CACHE_DIR",),
            "Folder of the disk cache; the user's cache folder if unset.",
        ),
        Knob(
            "cache_layers",
            str,
            "",
            ("TORCH_TILE_CACHE_LAYERS",),
            "Folders of other disk caches that are only read, separated as in PATH: those baked into an image.",
        ),
        Knob(
            "cache_limit_bytes",
            int,
            4 << 30,
            ("TORCH_TILE_CACHE_LIMIT_BYTES",),
            "Least recently used entries go beyond this size; 0: no limit.",
        ),
        Knob(
            "buffer_limit_bytes",
            int,
            1 << 30,
            ("TORCH_TILE_BUFFER_LIMIT_BYTES",),
            "Freed memory of large CPU buffers that the process keeps for its next calls, at most; 0: none. "
            "For the process, not for one call.",
            is_of_process=True,
        ),
        Knob(
            "perf_map",
            bool,
            False,
            ("TORCH_TILE_PERF_MAP",),
            "Name kernels in /tmp/perf-PID.map, where `perf` looks. For the process, not for one call.",
            is_of_process=True,
        ),
        Knob("interpret", bool, False, ("TORCH_TILE_INTERPRET",), "Run kernels of the tile language in Python."),
        Knob("force_compile", bool, False, ("TORCH_TILE_FORCE_COMPILE",), "Compile even what the disk cache has."),
        Knob(
            "debug",
            bool,
            False,
            ("TILE_COMPILE_DEBUG", "TORCH_COMPILE_DEBUG"),
            "Write every stage to torch's debug folder.",
        ),
        Knob(
            "poison",
            bool,
            False,
            ("TORCH_TILE_POISON",),
            "Fill freed buffers with NaN, to find reads after the last use.",
        ),
        Knob(
            "emulate_precision_casts",
            bool,
            False,
            ("TORCH_TILE_EMULATE_PRECISION_CASTS",),
            "Keep every rounding to float16 and bfloat16 that eager mode makes.",
            is_for_compiler=True,
        ),
        Knob(
            "freezing",
            bool,
            False,
            ("TORCH_TILE_FREEZING",),
            "Parameters are constants in graphs that need no gradients: computed with once, and packed.",
        ),
        Knob(
            "body_budget",
            int,
            600,
            ("TORCH_TILE_BODY_BUDGET",),
            "Operations of one fused loop body; a value with which one would grow further goes to memory.",
            is_for_compiler=True,
        ),
        Knob(
            "index_budget",
            int,
            160,
            ("TORCH_TILE_INDEX_BUDGET",),
            "Operations of one index expression; views with which one would grow further are made in memory.",
            is_for_compiler=True,
        ),
        Knob(
            "kernel_budget_ms",
            int,
            3000,
            ("TORCH_TILE_KERNEL_BUDGET_MS",),
            "Estimated time of code generation for one CPU kernel; a larger kernel is compiled without optimisation.",
            is_for_compiler=True,
        ),
        Knob("fusion", bool, True, ("TORCH_TILE_FUSION",), "Fuse ops into shared kernels.", is_for_compiler=True),
        Knob(
            "matmul_library",
            str,
            "auto",
            ("TORCH_TILE_MATMUL_LIBRARY",),
            "Who multiplies float32 matrices on the CPU: aten (eager's bits), onednn, or auto: the faster one there.",
            choices=("auto", "aten", "onednn"),
        ),
        Knob(
            "target",
            str,
            "host",
            ("TORCH_TILE_TARGET",),
            "Processor to compile for, by LLVM's name.",
            is_for_compiler=True,
        ),
        Knob(
            "threads",
            int,
            0,
            ("TORCH_TILE_COMPILE_THREADS",),
            "Threads that compile kernels; 0: one per processor, at most 8.",
        ),
        Knob(
            "cudagraphs",
            bool,
            False,
            ("TORCH_TILE_CUDAGRAPHS",),
            "Record graphs on a CUDA device once and replay them, as mode='reduce-overhead' does.",
        ),
        Knob(
            "deterministic",
            bool,
            False,
            ("TORCH_TILE_DETERMINISTIC",),
            "Identical bits on every run; kernels have no float atomics, so nothing changes on the CPU.",
        ),
    )
}

# Modes of torch.compile, and those of them that change nothing yet.
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_MODES_WITH_CUDAGRAPHS = frozenset(("reduce-overhead", "max-autotune"))
_MODES_WITHOUT_EFFECT = frozenset(MODES) - {"default", "reduce-overhead"}

_values: dict[str, Any] = {}
_said: set[str] = set()


def is_set() -> bool:
    """Whether any value is set for the process, beside the environment."""
    return bool(_values)


def get(name: str) -> Any:
    """The value for the process: as set, else from the environment, else the default."""
    if name in _values:
        return _values[name]
    knob = KNOBS[name]
    for variable in knob.environment:
        if variable in os.environ:
            try:
                return knob.parse(os.environ[variable])
            except ValueError as error:
                raise OptionError(f"environment variable {variable}: {error}") from None
    return knob.default


def value_and_source(name: str) -> tuple[Any, str]:
    """The value for the process, and where it comes from: code, an environment variable, or the default."""
    value = get(name)
    if name in _values:
        return value, "code"
    variable = next((each for each in KNOBS[name].environment if each in os.environ), None)
    return value, f"the environment, {variable}" if variable else "the default"


def set(name: str, value: Any) -> None:
    """Set a knob for the process."""
    _values[name] = _find(name).check(value)
    _tell_extension(name)


def _tell_extension(name: str) -> None:
    if extension := sys.modules.get("torch_tile._C"):
        if name == "buffer_limit_bytes":
            extension.set_buffer_limit(get(name))
        elif name == "perf_map":
            extension.set_perf_map(get(name))


@contextmanager
def patch(**values: Any) -> Iterator[None]:
    """Set knobs inside a with-block."""
    before = dict(_values)
    try:
        for name, value in values.items():
            set(name, value)
        yield
    finally:
        changed = [name for name in values if name in _values]
        _values.clear()
        _values.update(before)
        for name in changed:
            _tell_extension(name)


def _find(name: str) -> Knob:
    if name not in KNOBS:
        raise OptionError(f"unknown option {name!r}; known options: {', '.join(sorted(KNOBS))}")
    return KNOBS[name]


class Settings(Mapping[str, Any]):
    """The value of every knob for one torch.compile call."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.argument_names: list[str] = []
        """What the user calls the inputs of Dynamo's graph."""
        self.reason_against_recording: str | None = None
        """Why CUDA graphs are off for what is compiled later under these settings."""
        self.writes_inputs = False
        """Whether a graph compiled under these settings writes an input."""

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def compiler_options(self) -> dict[str, str]:
        """What the compiler is told, all of it part of the cache key; defaults are left out."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self._values.items()
            if KNOBS[name].is_for_compiler and value != KNOBS[name].default
        }

    def cache_dir(self) -> str | None:
        """Folder of the disk cache; None if it is off, or if the user has no place for it."""
        if not self["cache"] or _torch_disables_caches():
            return None
        return self["cache_dir"] or _default_cache_dir()

    def cache_layers(self) -> list[str]:
        """Folders of disk caches that are only read."""
        if not self["cache"] or _torch_disables_caches():
            return []
        return [os.path.abspath(folder) for folder in self["cache_layers"].split(os.pathsep) if folder]


def _torch_disables_caches() -> bool:
    """torch's own switch, which `torch._inductor.config.force_disable_caches` is another name of."""
    if "torch" not in sys.modules:
        return False
    from torch.compiler import config as torch_config

    return bool(torch_config.force_disable_caches)


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
    """Settings of one torch.compile call.

    Raises:
        OptionError: an unknown mode or option, or a value of the wrong type; lists what is known.
    """
    if mode is not None and mode not in MODES:
        raise OptionError(f"unknown mode {mode!r}; known modes: {', '.join(MODES)}")
    if mode in _MODES_WITHOUT_EFFECT and mode not in _said:
        _said.add(mode)
        log.warning("mode %r does nothing beyond the default yet", mode)
    values = {name: get(name) for name in KNOBS}
    values["cudagraphs"] = values["cudagraphs"] or mode in _MODES_WITH_CUDAGRAPHS
    for name, value in (options or {}).items():
        knob = _find(name)
        if knob.is_of_process:
            raise OptionError(
                f"option {name!r} is of the process, not of one torch.compile call: set it with "
                f"torch_tile.config.set({name!r}, {value!r}) or {knob.environment[0]}"
            )
        values[knob.name] = knob.check(value)
    return Settings(values)


def table() -> list[tuple[str, str, str, str, str]]:
    """Rows of name, type, default, environment variables and doc, for documentation."""
    return [(k.name, k.type.__name__, str(k.default), ", ".join(k.environment), k.doc) for k in KNOBS.values()]
