"""Freezing (`options={"freezing": True}`): parameters of inference graphs are constants of the compiled program."""

from torch_tile.frontend.freezing.calls import compile_frozen, parameters_of

__all__ = ["compile_frozen", "parameters_of"]
