"""Settings of a torch.compile call, with the checks that need the compiler."""

from __future__ import annotations

import difflib
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
    for name in settings.disabled_passes():
        if name not in PASSES and "." not in name:
            nearest = difflib.get_close_matches(name, PASSES, n=1)
            hint = f"; the nearest is {nearest[0]!r}" if nearest else ""
            known = ", ".join(PASSES)
            source = config.given_as("disable_passes", settings["disable_passes"])
            raise OptionError(f"{source} expected {known} or operators like aten.glu.default, got {name!r}{hint}")
    if report := settings["bisect_report"]:
        _check_writable(report)
    if settings["target"] != "host":
        from torch_tile.targets import check_processor

        check_processor(settings["target"])
    return settings


def _check_writable(report: str) -> None:
    try:
        with open(report, "a", encoding="utf-8"):
            pass
    except OSError as error:
        source = config.given_as("bisect_report", report)
        raise OptionError(f"{source} expected a file that can be written, got {report!r}: {error.strerror}") from None
