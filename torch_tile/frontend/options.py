"""Settings of a torch.compile call, with the checks that need the compiler."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any

from torch_tile import config
from torch_tile.config import Settings
from torch_tile.debug.limits import PASSES
from torch_tile.errors import OptionError


def settings_of(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
    """As `config.resolve`; a processor to compile for is one whose code runs here.

    Raises:
        OptionError: unknown mode or option, or a value that is not accepted.
    """
    settings = config.resolve(mode, options)
    check_left_out(settings)
    if report := settings["bisect_report"]:
        _check_writable(report)
    if settings["target"] != "host":
        from torch_tile.targets import check_processor

        check_processor(settings["target"])
    return settings


def check_left_out(settings: Settings) -> None:
    """Looks at the names in `disable_passes`.

    Raises:
        OptionError: one is neither a pass nor an operator.
    """
    for name in settings.disabled_passes():
        if name in PASSES or ("." in name and name in _decomposed()):
            continue
        source = config.given_as("disable_passes", settings["disable_passes"])
        if _is_operator(name):
            config.say_once(f"{source} names {name}, which has no decomposition here: it has no effect")
            continue
        packet = ".".join(name.split(".")[:2])
        default = [f"{packet}.default"] if f"{packet}.default" in _decomposed() else []
        nearest = default or difflib.get_close_matches(name, [*PASSES, *_decomposed()], n=1, cutoff=0.7)
        hint = f"; the nearest is {nearest[0]!r}" if nearest else ""
        known = ", ".join(PASSES)
        raise OptionError(f"{source} expected {known} or operators like aten.glu.default, got {name!r}{hint}")


@functools.cache
def _decomposed() -> frozenset[str]:
    """Operators that have a decomposition, of ours or of torch's."""
    from torch_tile.frontend.decompositions import decomposition_table

    return frozenset(map(str, decomposition_table(True, True)))


def _is_operator(name: str) -> bool:
    import torch

    parts = name.split(".")
    found: Any = torch.ops
    for part in parts:
        try:
            found = getattr(found, part)
        except (AttributeError, RuntimeError):  # names that no operator can have
            return False
    return len(parts) == 3 and isinstance(found, torch._ops.OpOverload)


def _check_writable(report: str) -> None:
    try:
        with open(report, "a", encoding="utf-8"):
            pass
    except OSError as error:
        source = config.given_as("bisect_report", report)
        raise OptionError(f"{source} expected a file that can be written, got {report!r}: {error.strerror}") from None
