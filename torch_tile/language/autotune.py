"""Choosing constants of a kernel by time, and computing them from its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_tile import config
from torch_tile.language import graph


class Config:
    """One choice of constants.

    Args:
        kwargs: values of constexpr parameters.
        num_warps, num_stages, maxnreg: options of a launch on a GPU; without effect on the CPU, but for kernels with a
            parameter of the name.
        num_ctas: without effect.
        pre_hook: called with all arguments by name before a launch.
    """

    def __init__(
        self,
        kwargs: dict[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
        **hints: Any,
    ) -> None:
        self.kwargs = kwargs
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """The constants and the hints that are set."""
        hints = {"num_warps": self.num_warps, "num_ctas": self.num_ctas, "num_stages": self.num_stages}
        hints |= {} if self.maxnreg is None else {"maxnreg": self.maxnreg}
        return {**self.kwargs, **hints}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return self.all_kwargs() == other.all_kwargs() and self.pre_hook == other.pre_hook

    def __hash__(self) -> int:
        return hash((str(self), self.pre_hook))

    def __str__(self) -> str:
        return ", ".join(f"{k}: {v}" for k, v in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self.kwargs})"


class Wrapper:
    """A kernel with constants still to be chosen: launched, interpreted and wrapped like a kernel."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.fn = kernel.fn
        self.arg_names = kernel.arg_names
        functools.update_wrapper(self, kernel.fn)
        self.index = graph.register(self)

    @property
    def params(self) -> Any:
        return self.kernel.params

    @property
    def base_fn(self) -> Any:
        """The undecorated function."""
        return self.kernel.fn

    def choose(self, args: Any, kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return graph.launch_in_graph(self, grid, args, kwargs)
        return self.kernel.run(*args, grid=grid, **self.choose(args, kwargs, grid))

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        return self.kernel.warmup(*args, grid=grid, **self.choose(args, kwargs, grid))

    @property
    def interpret(self) -> Any:
        from torch_tile.language.jit import Interpreted

        return Interpreted(self)

    # What the interpreter asks of a kernel.
    def bind(self, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        with config.patch(interpret=True):
            bound: dict[str, Any] = self.kernel.bind(args, self.choose(args, kwargs, None))
        return bound

    def meta(self, bound: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.kernel.meta(bound)
        return result

    def form(self, for_tracing: bool) -> Any:
        return self.kernel.form(for_tracing)

    def _named(self, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.arg_names, args, strict=False)), **kwargs}


class Heuristics(Wrapper):
    """Constants computed from the arguments."""

    def __init__(self, kernel: Any, values: dict[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(kernel)
        self.values = values

    def choose(self, args: Any, kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        known = self._named(args, kwargs)
        for name, function in self.values.items():
            kwargs = {**kwargs, name: function({**known, **kwargs})}
        return kwargs


def autotune(
    configs: list[Config],
    key: list[str],
    prune_configs_by: dict[str, Any] | None = None,
    reset_to_zero: Iterable[str] = (),
    restore_value: Iterable[str] = (),
    pre_hook: Any = None,
    post_hook: Any = None,
    warmup: Any = None,
    rep: Any = None,
    use_cuda_graph: bool = False,
    do_bench: Any = None,
    cache_results: bool = False,
) -> Callable[[Any], Any]:
    """Runs a kernel with the fastest of several configurations.

    Args:
        configs: the choices.
        key: arguments whose values, with the types of all tensors, call for a new choice.
        prune_configs_by: to time fewer, a dict of functions. "early_config_prune" takes the configurations, the
            arguments by position under their names, and those by name, and returns the configurations to keep.
            "perf_model" takes all of them by name and returns a time; the "top_k" fastest are timed, a count or a
            share.
        reset_to_zero: tensors set to zero before each timed launch.
        restore_value: tensors that keep their value while timing.
        pre_hook, post_hook: called in their place before and after each timed launch, with all arguments by name;
            `pre_hook` once more at the end with `reset_only=True`, `post_hook` with the `exception`, or None.
        do_bench: times a function, `do_bench(launch, quantiles=(0.5, 0.2, 0.8))`.

    Configurations are compiled in parallel. Those that a device lacks resources for, and those whose static assertions
    fail, are left out. The choice is stored on disk, by device, kernel, configurations and key, unless a configuration
    has a hook or `do_bench` is given. TORCH_TILE_PRINT_AUTOTUNING=1 prints it.

    Example:
        >>> @torch_tile.autotune(configs=[torch_tile.Config({"BLOCK": b}) for b in (256, 1024)], key=["n"])
        ... @torch_tile.jit
        ... def kernel(x_ptr, n, BLOCK: tl.constexpr): ...
    """
    from torch_tile.language.autotuner import Autotuner

    return lambda kernel: Autotuner(
        kernel, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by, do_bench
    )


def heuristics(values: dict[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Any]:
    """Computes constants from the arguments of a launch.

    Example:
        >>> @torch_tile.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
        ... @torch_tile.jit
        ... def kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): ...
    """
    return lambda kernel: Heuristics(kernel, values)
