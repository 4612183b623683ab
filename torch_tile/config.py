"""Reading and setting knobs (knobs.py), for the process and for one torch.compile call.

A knob is read as `config.get("strict")`, set for the process with `config.set("strict", True)` or
`config.strict = True`, and for one torch.compile call with `options={"strict": True}`. The environment is read whenever
a knob is asked for.
"""

from __future__ import annotations

import difflib
import functools
import logging
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch_tile import inductor_options, inductor_settings
from torch_tile.errors import OptionError
from torch_tile.knobs import KNOBS as KNOBS
from torch_tile.knobs import Knob

log = logging.getLogger(__name__)

# What each mode of torch.compile sets.
_MODE_OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {"fusion": False},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "max-autotune": {"max_autotune": True, "cudagraphs": True},
}
MODES = tuple(_MODE_OPTIONS)
# Variables of builds and tests.
_OTHER_NAMES = (
    "INDUCTOR_STEP LIBTORCH_CPU LLVM_DIR MODEL_COUNTS NVJITLINK PRECOMPILE SANITIZE SANITIZED SIMULATE_REVERSED THIN "
    "TORCH ULP_STEP UPDATE_GOLDEN VERSION"
)
_OTHER_VARIABLES = frozenset(f"TORCH_TILE_{name}" for name in _OTHER_NAMES.split())
_OTHER_PREFIXES = ("TORCH_TILE_BUILD_", "TORCH_TILE_TEST_")
_OLD_VARIABLES = {"TILE_COMPILE_DEBUG": "TORCH_TILE_DEBUG"}

_ARGUMENTS = ("backend", "disable", "dynamic", "fullgraph", "mode", "options")

_values: dict[str, Any] = {}
_said: set[str] = set()
# Folders of caches that somebody has named, and hears of where they cannot be used.
_cache_dirs: set[str] = set()
_cache_layers: set[str] = set()


def _default_cache_dir() -> str | None:
    """The user's cache folder; None where the user has no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if sys.platform != "darwin" and os.path.isabs(given):
        return os.path.join(given, "torch_tile")
    home = Path(_home())
    if not home.is_absolute():
        why = "HOME is not set, and the user has no entry in the list of users"
        if os.environ.get("HOME"):
            why = f"HOME is no absolute path: {os.environ['HOME']!r}"
        say_once(f"the disk cache is off: {why}; TORCH_TILE_CACHE_DIR names a folder")
        return None
    return str(home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "torch_tile")


def _home() -> str:
    """The user's home as HOME says, otherwise as the list of users does; "" if neither does."""
    if given := os.environ.get("HOME"):
        return given
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return ""


def named_folder(name: str | None) -> str:
    """The folder that a setting names, "" for none; a relative name means the same one all the time."""
    path = name or ""
    if (path == "~" or path.startswith("~/")) and (home := _home()):
        path = home + path[1:]
    path = os.path.expanduser(path)
    return _absolute(path) if path else ""


def _is_text(path: str) -> bool:
    """Whether a path can be handed to the extension, and be part of messages."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@functools.cache
def _absolute(path: str) -> str:
    """Where `path` is seen from the folder in which the process first used it."""
    return os.path.abspath(path)


def say_once(message: str) -> None:
    """A warning, once a process."""
    if message not in _said:
        _said.add(message)
        log.warning(message)


def is_set() -> bool:
    """Whether any value is set for the process, beside the environment."""
    return bool(_values)


def get(name: str) -> Any:
    """The value for the process: as set, else from the environment, else the default."""
    if name in _values:
        return _values[name]
    knob = _find(name)
    variable = _variable_of(knob)
    if variable is None:
        return knob.default
    try:
        return knob.parse(os.environ[variable], variable)
    except ValueError as error:
        raise OptionError(f"environment variable {variable}: {error}") from None


def _variable_of(knob: Knob) -> str | None:
    """The environment variable that sets a knob, if one does. An empty one counts as unset."""
    return next((each for each in (*knob.environment, *_old_names(knob)) if os.environ.get(each)), None)


def value_and_source(name: str) -> tuple[Any, str]:
    """The value for the process, and where it comes from: code, an environment variable, or the default."""
    value = get(name)
    if name in _values:
        return value, "code"
    variable = _variable_of(KNOBS[name])
    return value, f"the environment, {variable}" if variable else "the default"


def given_as(name: str, value: Any) -> str:
    """What a message calls a value that is refused: the option, or the environment variable that it comes from."""
    variable = _variable_of(_find(name))
    is_of_environment = variable is not None and name not in _values and get(name) == value
    return f"environment variable {variable}" if is_of_environment else f"option {name!r}"


def _old_names(knob: Knob) -> list[str]:
    return [old for old, new in _OLD_VARIABLES.items() if new in knob.environment]


def check_environment() -> None:
    """Warn, once each, of variables with our prefix that nothing reads."""
    known = {variable for knob in KNOBS.values() for variable in knob.environment}
    prefix = "TORCH_TILE_"
    for variable in os.environ:
        if variable in _OLD_VARIABLES:
            say_once(f"environment variable {variable} has a new name: {_OLD_VARIABLES[variable]}")
        if not variable.startswith(prefix) or variable in known or variable in _OTHER_VARIABLES:
            continue
        if not variable.startswith(_OTHER_PREFIXES):
            nearest = _nearest(variable.removeprefix(prefix), [name.removeprefix(prefix) for name in known])
            hint = f"; the nearest known is {prefix}{nearest[0]}" if nearest else ""
            say_once(f"environment variable {variable} is not known and has no effect{hint}")


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(known), n=2, cutoff=0.6)


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
        raise OptionError(_unknown(name))
    return KNOBS[name]


def _unknown(name: str) -> str:
    if name in _ARGUMENTS:
        return f"{name!r} is an argument of torch.compile, not an option: torch.compile(..., {name}=...)"
    if (fate := inductor_options.fate_of(name)) is not None:
        here = "here it is" if fate.verdict == "sets" else "there is none of ours for it:"
        return f"{name!r} is a name of Inductor's, understood in torch.compile(options=...) alone; {here} {fate.text}"
    nearest = _nearest(name, {*KNOBS, *inductor_options.names()})
    hint = f"the nearest known: {', '.join(map(repr, nearest))}; " if nearest else ""
    return (
        f"unknown option {name!r}; {hint}torch_tile.list_options() lists ours, "
        "and torch.compile(options=...) understands Inductor's names too"
    )


class Settings(Mapping[str, Any]):
    """The value of every knob for one torch.compile call."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.asked_for: frozenset[str] = frozenset()
        """Knobs that the user has set, other than by a mode."""
        self.argument_names: list[str] = []
        """What the user calls the inputs of Dynamo's graph."""
        self.reason_against_recording: str | None = None
        """Why CUDA graphs are off for what is compiled later under these settings."""
        self.writes_inputs = False
        """Whether a graph compiled under these settings writes an input."""
        self.real_inputs: Any = None
        """Tensors behind the fake ones that a graph is compiled with."""
        self.after_loading: Settings | None = None
        """Settings of what a loaded artifact compiles later, when its files are gone."""
        self.artifact_key: str | None = None
        """The key under which the graph is kept although nobody looks it up (frontend/standalone.py)."""
        self.reason_against_keeping = ""
        """Why it is not."""

    def changed(self, **values: Any) -> Settings:
        """The same, with other values of some knobs."""
        changed = Settings({**self._values, **values})
        changed.asked_for = self.asked_for
        return changed

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def passes(self, name: str) -> list[Any]:
        """Callables of a knob that holds passes."""
        value = self._values[name]
        return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]

    def key(self, irrelevant: Iterable[str]) -> list[tuple[str, str]] | None:
        """All that decides what is compiled, for keys of caches; None where a pass has no `uuid()` to tell it from
        others.

        Args:
            irrelevant: knobs that decide nothing.
        """
        parts = []
        for name in sorted(self._values):
            if KNOBS[name].is_pass:
                identities = [_identity(each) for each in self.passes(name)]
                if None in identities:
                    without = ", ".join(
                        _name_of(p) for p, key in zip(self.passes(name), identities, strict=True) if key is None
                    )
                    say_once(
                        f"warm starts are off: {name} holds a pass without uuid() (torch._inductor.custom_graph_pass), "
                        f"so graphs that it has changed cannot be told apart: {without}"
                    )
                    return None
                parts.append((name, repr(identities)))
            elif name not in irrelevant:
                parts.append((name, str(self._values[name])))
        return parts

    def disabled_passes(self) -> list[str]:
        """What `disable_passes` lists."""
        return [name.strip() for name in self._values["disable_passes"].split(",") if name.strip()]

    def compiler_options(self) -> dict[str, str]:
        """What the compiler is told, all of it part of the cache key; defaults are left out."""
        options = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self._values.items()
            if KNOBS[name].is_for_compiler and value != KNOBS[name].default
        }
        if _torch_is_deterministic():
            options["deterministic"] = "true"
        if "fusion" in self.disabled_passes():
            options["fusion"] = "false"
        if "elide_roundings" in self.disabled_passes():
            options["emulate_precision_casts"] = "true"
        return options

    def cache_dir(self) -> str | None:
        """Folder of the disk cache; None if it is off, or if the user has no place for it."""
        if not self["cache"] or _torch_disables_caches():
            return None
        named = named_folder(self["cache_dir"])
        folder = named or _default_cache_dir()
        if named:
            _cache_dirs.add(named)
        if folder is not None and not _is_text(folder):
            say_once(
                f"the disk cache is off: the name of its folder is not UTF-8: {os.fsencode(folder)!r}; "
                "TORCH_TILE_CACHE_DIR names another folder"
            )
            return None
        return folder

    def cache_layers(self) -> list[str]:
        """Folders of disk caches that are only read."""
        if not self["cache"] or _torch_disables_caches():
            return []
        given = [folder for folder in self["cache_layers"].split(os.pathsep) if folder]
        folders = []
        for folder in map(named_folder, given):
            if not _is_text(folder):
                say_once(
                    f"cache_layers (TORCH_TILE_CACHE_LAYERS) names {os.fsencode(folder)!r}, which is not UTF-8; it is "
                    "not used"
                )
                continue
            folders.append(folder)
            _cache_layers.add(folder)
            if not os.path.isdir(folder):
                say_once(f"cache_layers (TORCH_TILE_CACHE_LAYERS) names {folder}, which is no folder; it is not used")
        return folders


def is_named_cache(path: str) -> bool:
    """Whether a path lies in a cache folder that somebody has named."""
    return _is_within(path, _cache_dirs)


def is_of_layer(path: str) -> bool:
    """Whether a path lies in a disk cache that is only read."""
    return _is_within(path, _cache_layers)


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _torch_is_deterministic() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.are_deterministic_algorithms_enabled())


def _torch_disables_caches() -> bool:
    """torch's own switch, which `torch._inductor.config.force_disable_caches` is another name of."""
    if "torch" not in sys.modules:
        return False
    from torch.compiler import config as torch_config

    return bool(torch_config.force_disable_caches)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _identity(function: Any) -> Any:
    """What tells a pass from others in keys of caches: the uuid() of torch._inductor.custom_graph_pass."""
    uuid = getattr(function, "uuid", None)
    return uuid() if callable(uuid) else None


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
    """Settings of one torch.compile call.

    Args:
        mode: a mode of torch.compile.
        options: knobs of ours, or options of Inductor (inductor_options.py).

    Raises:
        OptionError: an unknown mode or option, a value that is not accepted, or an option of Inductor's that asks for
            something that is not done here.
    """
    check_environment()
    _check_mode_and_options(mode, options)
    values = {name: get(name) for name in KNOBS}
    if mode is not None:
        values.update(list_mode_options(mode))
    given: dict[str, tuple[str, Any]] = {}
    for option, name, wanted in translated(options or {}):
        knob = _find(name)
        if knob.is_of_process:
            raise OptionError(
                f"option {name!r} is of the process, not of one torch.compile call: set it with "
                f"torch_tile.config.set({name!r}, {wanted!r}) or {knob.environment[0]}"
            )
        if name in given and given[name][1] != wanted:
            raise OptionError(f"options {given[name][0]!r} and {option!r} ask for different values of {name!r}")
        given[name] = option, wanted
        values[name] = knob.check(wanted, option)
    settings = Settings(values)
    settings.asked_for = frozenset(given) | {name for name in KNOBS if value_and_source(name)[1] != "the default"}
    by_mode = list_mode_options(mode) if mode is not None else {}
    for line in inductor_settings.unheard(values, settings.asked_for | by_mode.keys()):
        say_once(line)
    return settings


def of_process() -> Settings:
    """Settings without those of a torch.compile call, and without the lines that such a call gets."""
    return Settings({name: get(name) for name in KNOBS})


def _check_mode_and_options(mode: Any, options: Any) -> None:
    if mode is not None and (not isinstance(mode, str) or not mode):
        raise OptionError(f"mode expected one of {', '.join(MODES)}, or None, got {mode!r}")
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise OptionError(f"options expected a dict of names and values, got {type(options).__name__} {options!r}")
    for name in options:
        if not isinstance(name, str):
            raise OptionError(f"options expected names as keys, got {type(name).__name__} {name!r}")


def translated(options: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Options as given, and which knob each sets to what."""
    for option, values in _translated(options):
        for name, wanted in values.items():
            yield option, name, wanted


def _translated(options: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each option, and what it sets of ours."""
    for given, value in options.items():
        name = given if given in KNOBS else given.replace("-", "_")
        if name in KNOBS:
            yield given, {name: value}
        elif inductor_options.fate_of(name) is not None:
            yield given, inductor_options.translate(name, value, say_once)
        else:
            raise OptionError(_unknown(given))


def list_options() -> list[str]:
    """Names of the options of torch.compile(..., backend="tile"); those of Inductor are understood beside them."""
    return sorted(name for name, knob in KNOBS.items() if not knob.is_of_process)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What a mode of torch.compile sets, or, by mode, what each of them does.

    Args:
        mode: a mode of torch.compile; all of them if None.
        dynamic: whether sizes are dynamic; no mode depends on it.

    Raises:
        OptionError: an unknown mode; lists what is known.
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODE_OPTIONS.items()}
    if not isinstance(mode, str) or mode not in _MODE_OPTIONS:
        nearest = _nearest(str(mode), MODES)
        hint = f"; the nearest is {nearest[0]!r}" if nearest else ""
        raise OptionError(f"unknown mode {mode!r}{hint}; known modes: {', '.join(MODES)}")
    return dict(_MODE_OPTIONS[mode])


def table() -> list[tuple[str, str, str, str, str]]:
    """Rows of name, type, default, environment variables and doc, for documentation."""
    return [(k.name, k.type.__name__, str(k.default), ", ".join(k.environment), k.doc) for k in KNOBS.values()]


class _Config(types.ModuleType):
    """`config.fusion = False` sets the knob; a name that nothing reads is refused."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in KNOBS:
            set(name, value)
        elif name.startswith("_") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            raise OptionError(_unknown(name))

    def __getattr__(self, name: str) -> Any:
        if name in KNOBS:
            return get(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Config
