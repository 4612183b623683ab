"""torch-tile: ``torch.compile(model, backend="tile")``.

The backend is registered by entry point; nothing here has to be imported to use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch_tile import config, errors
from torch_tile.counters import counters

if TYPE_CHECKING:
    from torch_tile.debug.explain import explain as explain

__version__ = "0.1.0"
__all__ = ["__version__", "config", "counters", "errors", "explain"]


def __getattr__(name: str) -> Any:
    # explain needs Dynamo; importing the package does not.
    if name == "explain":
        from torch_tile.debug.explain import explain

        return explain
    raise AttributeError(f"module 'torch_tile' has no attribute {name!r}")
