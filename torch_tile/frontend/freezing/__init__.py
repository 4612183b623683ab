"""Freezing (`options={"freezing": True}`): parameters of inference graphs are constants of the compiled program."""

from torch_tile.frontend.freezing.calls import compile_frozen, load_frozen, optimize, parameters_of, reload_frozen
from torch_tile.frontend.freezing.scaling import scale_weights

__all__ = ["compile_frozen", "load_frozen", "optimize", "parameters_of", "reload_frozen", "scale_weights"]
