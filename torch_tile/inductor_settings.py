"""Settings of Inductor made for the process, which do not reach this backend: what to say of each.

They are `torch._inductor.config.max_autotune = True`, `torch._inductor.config.patch(...)`, and variables such as
TORCHINDUCTOR_MAX_AUTOTUNE.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from torch_tile import inductor_options
from torch_tile.errors import OptionError
from torch_tile.knobs import KNOBS

# Variables that change an option of Inductor, and what Inductor takes where the variable is not set.
_VARIABLES: dict[str, tuple[str, Any]] = {
    "TORCHINDUCTOR_BATCH_INVARIANT": ("batch_invariant", False),
    "TORCHINDUCTOR_BENCHMARK_KERNEL": ("benchmark_kernel", False),
    "TORCHINDUCTOR_COMPILE_THREADS": ("compile_threads", None),
    "TORCHINDUCTOR_CUDAGRAPHS": ("triton.cudagraphs", False),
    "TORCHINDUCTOR_DETERMINISTIC": ("deterministic", False),
    "TORCHINDUCTOR_DISABLED_PASSES": ("disabled_passes", ""),
    "TORCHINDUCTOR_FREEZING": ("freezing", False),
    "TORCHINDUCTOR_FX_GRAPH_CACHE": ("fx_graph_cache", True),
    "TORCHINDUCTOR_MAX_AUTOTUNE": ("max_autotune", False),
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM": ("max_autotune_gemm", False),
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS": ("max_autotune_gemm_backends", "ATEN,TRITON,CPP"),
    "TORCHINDUCTOR_NAN_ASSERTS": ("nan_asserts", False),
    "TORCHINDUCTOR_SAVE_ARGS": ("save_args", False),
}
# What is honoured wherever it is set (config.py).
_HEARD = frozenset({"debug", "force_disable_caches", "trace.enabled", "trace.graph_diagram"})
_PLAIN = (bool, int, float, str)


def unheard(values: Mapping[str, Any], chosen: frozenset[str]) -> Iterator[str]:
    """Lines about settings that ask for something else than what is done.

    Settings that are accepted without effect in `options=` need no line.

    Args:
        values: knobs of a torch.compile call.
        chosen: knobs that the user has set for this backend.
    """
    for source, name, value in _changed():
        wanted = _knobs_of(name, value)
        if isinstance(wanted, str):
            yield f"{source} has no effect on backend='tile': {wanted}"
            continue
        missing = {knob: each for knob, each in wanted.items() if knob not in chosen and values[knob] != each}
        if missing:
            yield f"{source} has no effect on backend='tile'; {_remedy(name, value, missing)}"


def _changed() -> Iterator[tuple[str, str, Any]]:
    """How it was set, the option, and its value, where that is not Inductor's default."""
    config: Any = sys.modules.get("torch._inductor.config")
    if config is None:
        return  # Dynamo imports it before anything is compiled
    from_variables = {name: variable for variable, (name, _) in _VARIABLES.items() if variable in os.environ}
    for name in {**inductor_options.ROWS, **KNOBS}:
        entry = getattr(config, "_config", {}).get(name)
        if entry is None or getattr(entry, "alias", None) is not None or name in _HEARD:
            continue
        value = _value(config, name)
        if name == "deterministic" and value == _torch_is_deterministic():
            continue  # torch.use_deterministic_algorithms sets the option as well, and is followed
        variable = from_variables.get(name)
        if variable is not None and value == _from_environment(entry):
            if value != _VARIABLES[variable][1]:
                yield f"environment variable {variable}={os.environ[variable]}", name, value
        elif not _is_same(value, entry.default):
            yield f"torch._inductor.config.{name} = {_text(value)}", name, value


def _torch_is_deterministic() -> bool:
    torch: Any = sys.modules["torch"]
    return bool(torch.are_deterministic_algorithms_enabled())


def _value(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def _from_environment(entry: Any) -> Any:
    """What the variable set when Inductor's module was imported."""
    forced = getattr(entry, "env_value_force", None)
    return forced if isinstance(forced, (bool, str)) else entry.default


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _knobs_of(name: str, value: Any) -> Mapping[str, Any] | str:
    """Knobs that the option would set, or the reason against it."""
    if name in KNOBS:
        return {name: value}
    try:
        return inductor_options.translate(name, value, lambda line: None)
    except OptionError as error:
        return str(error).partition("is refused: ")[2] or str(error)


def _remedy(name: str, value: Any, missing: Mapping[str, Any]) -> str:
    knob, wanted = next(iter(missing.items()))
    here = f"pass options={{{name!r}: {_text(value)}}} to torch.compile"
    return f"{here}, or set torch_tile.config.{knob} = {_text(wanted)}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, _PLAIN):
        return repr(value)
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__)
