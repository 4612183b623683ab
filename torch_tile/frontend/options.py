"""Settings of a torch.compile call, with the checks that need the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_tile import config
from torch_tile.config import Settings


def settings_of(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
    """As `config.resolve`; a processor to compile for is one whose code runs here.

    Raises:
        OptionError: unknown mode or option, or a value that is not accepted.
    """
    settings = config.resolve(mode, options)
    if settings["target"] != "host":
        from torch_tile.targets import check_processor

        check_processor(settings["target"])
    return settings
