"""The object behind torch.compile(backend="tile"): checks mode and options, then hands over to AOTAutograd."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class TileBackend:
    """Called by Dynamo with one FX graph and its example inputs."""

    @property
    def __name__(self) -> str:
        _check_at_compile()  # torch.compile asks an object for its name
        return "tile"

    @property
    def _tags(self) -> tuple[str, ...]:
        return ()

    @_tags.setter
    def _tags(self, tags: tuple[str, ...]) -> None:
        _check_at_compile()  # torch sets it when torch.compile looks up the name of the backend

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph.

        Args:
            gm: the graph as Dynamo captured it.
            example_inputs: tensors and sizes it was captured with.
            mode: a mode of torch.compile.
            options: knobs of torch_tile.config for this call.

        Raises:
            torch_tile.errors.OptionError: unknown mode or option.
            torch_tile.errors.TileError: the graph cannot be compiled and `strict` is set.
        """
        from torch._functorch import config as functorch_config

        from torch_tile.frontend.aot import compile_with_autograd

        settings = self.settings(mode, options)
        if functorch_config.bundled_autograd_cache and functorch_config.strict_autograd_cache:
            # torch._dynamo.aot_compile asks for a callable that can be saved.
            from torch_tile.frontend.standalone import compile_artifact

            return compile_artifact(gm, example_inputs, settings)
        if settings["debug"]:
            from torch_tile.debug.dump import first_call

            with first_call(example_inputs):
                return compile_with_autograd(gm, example_inputs, settings)
        return compile_with_autograd(gm, example_inputs, settings)

    def settings(self, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """Settings of one torch.compile call.

        Raises:
            torch_tile.errors.OptionError: unknown mode or option, or a value that is not accepted.
        """
        from torch_tile.frontend.options import settings_of

        return settings_of(mode, options)

    def reset(self) -> None:
        """Called by torch.compiler.reset(), several times; graphs belong to Dynamo, so there is nothing to forget."""


def _check_at_compile() -> None:
    """Mode and options are refused by torch.compile itself, not by the first call of what it returns.

    torch has no hook for it. torch.compile hands all backends but its own to `torch._dynamo.optimize`; where that is
    not so, options are still checked with the first graph.
    """
    dynamo: Any = sys.modules.get("torch._dynamo")
    optimize = getattr(dynamo, "optimize", None)
    if dynamo is None or optimize is None or hasattr(optimize, "_checks_options_of_tile"):
        return

    @functools.wraps(optimize)
    def checked(*args: Any, **kwargs: Any) -> Any:
        wrapper = kwargs.get("backend", args[0] if args else None)
        compiler = getattr(wrapper, "compiler_fn", None)
        if isinstance(compiler, TileBackend):
            given = dict(getattr(wrapper, "kwargs", {}))
            arguments = _arguments_of_compile(sys._getframe(1))
            if arguments.get("use_aoti"):
                given["options"] = {**given.get("options", {}), "use_aoti": True}
            # torch.compile does not hand on an empty mode.
            compiler.settings("" if arguments.get("mode") == "" else given.get("mode"), given.get("options"))
        return optimize(*args, **kwargs)

    checked._checks_options_of_tile = True  # type: ignore[attr-defined]
    dynamo.optimize = checked


def _arguments_of_compile(frame: Any) -> Mapping[str, Any]:
    """Variables of torch.compile, where that is the caller. It takes the option `use_aoti` away and ignores it."""
    is_compile = frame.f_code.co_name == "compile" and frame.f_globals.get("__name__") == "torch"
    return frame.f_locals if is_compile else {}


def _explain_untraceable_launches() -> None:
    """Says why where Dynamo walks into Triton's own code for a launch: it does so only if torch finds no device for
    Triton's kernels, and then stops at something that tells nobody anything."""
    for module, name in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.autotuner", "Autotuner")):
        run = getattr(getattr(sys.modules.get(module), name, None), "run", None)
        if run is not None and not hasattr(run, "_torchdynamo_disable"):
            # What torch.compiler.disable sets, without importing Dynamo.
            run._torchdynamo_disable = True
            run._torchdynamo_disable_msg = (
                "a Triton kernel can be part of a graph only where torch.utils._triton.has_triton() says yes: Triton "
                "needs a backend for a device that is there. torch-tile registers one for the CPU when it is installed "
                "(entry point `cpu` of `triton.backends`)"
            )


if "torch" in sys.modules:
    # torch.compiler.load_cache_artifacts refuses what it does not know.
    from torch_tile import cache_artifacts  # noqa: F401

_explain_untraceable_launches()
_check_at_compile()
tile = TileBackend()
