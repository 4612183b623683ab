"""Choosing constants of a kernel by time, and computing them from its arguments."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_tile import config
from torch_tile.language import graph

log = logging.getLogger(__name__)


class Config:
    """One choice of constants.

    Args:
        kwargs: values of constexpr parameters.
        num_warps: how many warps of a GPU a program gets; without effect on the CPU.
        num_stages: how many iterations of a loop, less one, operands of products are loaded ahead on a GPU.
        num_ctas, maxnreg: without effect.
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
        return {**self.kwargs, **hints}

    def __str__(self) -> str:
        return ", ".join(f"{k}: {v}" for k, v in self.kwargs.items())

    def __repr__(self) -> str:
        return f"Config({self.kwargs})"


class _Wrapper:
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


class Heuristics(_Wrapper):
    """Constants computed from the arguments."""

    def __init__(self, kernel: Any, values: dict[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(kernel)
        self.values = values

    def choose(self, args: Any, kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        known = self._named(args, kwargs)
        for name, function in self.values.items():
            kwargs = {**kwargs, name: function({**known, **kwargs})}
        return kwargs


def _is_on_cuda(known: dict[str, Any]) -> bool:
    """Whether tensors among the arguments, or what descriptors and wrappers hold, are on a CUDA device."""
    return any(getattr(getattr(v, "base", v), "is_cuda", False) for v in known.values())


class Autotuner(_Wrapper):
    """The fastest of several configurations, by the values of `key` and the types of tensors."""

    def __init__(
        self,
        kernel: Any,
        configs: list[Config],
        key: list[str],
        reset_to_zero: Iterable[str] = (),
        restore_value: Iterable[str] = (),
        pre_hook: Any = None,
        post_hook: Any = None,
        prune: dict[str, Any] | None = None,
        do_bench: Any = None,
    ) -> None:
        super().__init__(kernel)
        self.configs = configs or [Config({})]
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.pre_hook, self.post_hook = pre_hook, post_hook
        self.prune = prune or {}
        self.do_bench = do_bench
        self.cache: dict[Any, Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, float] = {}

    def choose(self, args: Any, kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        known = self._named(args, kwargs)
        key = tuple(known.get(k) for k in self.keys)
        key += tuple(str(v.dtype) for v in known.values() if isinstance(v, torch.Tensor))
        if _is_on_cuda(known):
            key += ("cuda",)
        chosen = self.cache.get(key)
        if chosen is None:
            candidates = self._candidates(known, kwargs)
            # The interpreter's speed says nothing about that of a compiled kernel.
            if len(candidates) == 1 or config.get("interpret"):
                chosen = candidates[0]
            else:
                chosen = self._fastest(candidates, args, kwargs, known, grid)
                self.cache[key] = chosen
        self.best_config = chosen
        if chosen.pre_hook is not None:
            chosen.pre_hook({**known, **chosen.kwargs})
        clash = [k for k in chosen.kwargs if k in kwargs]
        if clash:
            raise ValueError(f"autotune chooses {clash[0]!r}, so the launch must not pass it")
        return {**kwargs, **chosen.kwargs, **self._hints(chosen, known)}

    def _hints(self, chosen: Config, known: dict[str, Any]) -> dict[str, Any]:
        """What a launch on a GPU is told beside the constants."""
        if not _is_on_cuda(known):
            return {}
        hints = {"num_warps": chosen.num_warps, "num_stages": chosen.num_stages}
        return {name: value for name, value in hints.items() if name not in known}

    def _candidates(self, known: dict[str, Any], kwargs: dict[str, Any]) -> list[Config]:
        candidates = self.configs
        early = self.prune.get("early_config_prune")
        if early is not None:
            positional = {name: value for name, value in known.items() if name not in kwargs}
            candidates = list(early(candidates, positional, **kwargs))
        model, top_k = self.prune.get("perf_model"), self.prune.get("top_k")
        if model is not None and top_k is not None:
            count = math.ceil(len(candidates) * top_k) if isinstance(top_k, float) and top_k <= 1.0 else int(top_k)
            candidates = sorted(candidates, key=lambda c: model(**{**known, **c.all_kwargs()}))[:count]
        if not candidates:
            raise ValueError("autotune: no configuration is left; early_config_prune expected to keep at least one")
        return candidates

    def _fastest(self, candidates: list[Config], args: Any, kwargs: Any, known: Any, grid: Any) -> Config:
        from torch_tile.language.timing import do_bench

        timings: dict[Config, float] = {}
        kept = {name: known[name].clone() for name in self.restore_value}
        for candidate in candidates:
            constants = {**kwargs, **candidate.kwargs, **self._hints(candidate, known)}

            def launch(candidate: Config = candidate, constants: Any = constants) -> None:
                everything = {**known, **candidate.kwargs}
                for hook in (self.pre_hook, candidate.pre_hook):
                    if hook is not None:
                        hook(everything)
                for name in self.reset_to_zero:
                    known[name].zero_()
                self.kernel.run(*args, grid=grid, **constants)

            timings[candidate] = (self.do_bench or do_bench)(launch, warmup=5, rep=20)
            for name, value in kept.items():
                known[name].copy_(value)
        for name in self.reset_to_zero:
            known[name].zero_()
        self.configs_timings = timings
        best = min(timings, key=lambda c: timings[c])
        log.info("autotuning of %s: %s (%.3f ms)", self.fn.__name__, best, timings[best])
        return best


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
        prune_configs_by: "early_config_prune", or "perf_model" and "top_k", to time fewer.
        reset_to_zero: tensors set to zero before each timed launch.
        restore_value: tensors that keep their value while timing.

    Example:
        >>> @torch_tile.autotune(configs=[torch_tile.Config({"BLOCK": b}) for b in (256, 1024)], key=["n"])
        ... @torch_tile.jit
        ... def kernel(x_ptr, n, BLOCK: tl.constexpr): ...
    """
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
