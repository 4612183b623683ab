"""The fastest of several configurations of a kernel: pruned, compiled in parallel, timed, and kept on disk."""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from torch_tile import config
from torch_tile.errors import InvalidKernelError, UnsupportedError
from torch_tile.language import choices_on_disk
from torch_tile.language.autotune import Config, Wrapper

log = logging.getLogger(__name__)
_MOST_THREADS = 8


def _device_of(known: dict[str, Any]) -> torch.device | None:
    """The CUDA device of tensors among the arguments, or of what descriptors and wrappers hold; None on the CPU."""
    for value in known.values():
        held = getattr(value, "base", value)
        if getattr(held, "is_cuda", False):
            device: torch.device = held.device
            return device
    return None


def _is_left_out(error: Exception) -> bool:
    """Whether another configuration may do: too little of a resource, or a static assertion."""
    if isinstance(error, UnsupportedError):
        return True
    return isinstance(error, InvalidKernelError) and "static assertion failed" in error.text


class Autotuner(Wrapper):
    """The fastest of several configurations, by the values of `key` and the types of tensors.

    Attributes:
        best_config: of the last launch.
        configs_timings: times in ms of the last choice, infinite for configurations that were left out.
        bench_time: how long the last choice took, in seconds.
    """

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
        for what, names in (
            ("key", self.keys),
            ("reset_to_zero", self.reset_to_zero),
            ("restore_value", self.restore_value),
        ):
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                raise ValueError(
                    f"autotune: {what} contains names that are not arguments of kernel {self.fn.__name__}: "
                    f"{', '.join(unknown)}; its arguments are {', '.join(self.arg_names)}"
                )
        self.pre_hook, self.post_hook = pre_hook, post_hook
        self.prune = prune or {}
        self.do_bench = do_bench
        self.cache: dict[Any, Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, float] = {}
        self.bench_time = 0.0
        self._kept: dict[str, torch.Tensor] = {}

    def choose(self, args: Any, kwargs: dict[str, Any], grid: Any) -> dict[str, Any]:
        known = self._named(args, kwargs)
        key = tuple(known.get(k) for k in self.keys)
        key += tuple(str(v.dtype) for v in known.values() if isinstance(v, torch.Tensor))
        device = _device_of(known)
        if device is not None:
            key += (str(device),)
        chosen = self.cache.get(key)
        if chosen is None:
            candidates = self._candidates(known, kwargs)
            # The interpreter's speed says nothing about that of a compiled kernel.
            if len(candidates) == 1 or config.get("interpret"):
                chosen = candidates[0]
            else:
                chosen = self.cache[key] = self._choose_among(candidates, args, kwargs, grid, key)
        self.best_config = chosen
        if chosen.pre_hook is not None:
            chosen.pre_hook({**known, **chosen.all_kwargs()})
        return self._arguments(chosen, known, kwargs)

    def _arguments(self, chosen: Config, known: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Named arguments of a launch with a configuration."""
        clash = [k for k in chosen.kwargs if k in kwargs]
        if clash:
            raise ValueError(f"autotune chooses {clash[0]!r}, so the launch must not pass it")
        is_on_gpu = _device_of(known) is not None or "target" in known
        hints = {k: v for k, v in chosen.all_kwargs().items() if k not in chosen.kwargs and k not in known}
        hints = {k: v for k, v in hints.items() if is_on_gpu or k in self.arg_names}
        return {**kwargs, **chosen.kwargs, **hints}

    def _candidates(self, known: dict[str, Any], kwargs: dict[str, Any]) -> list[Config]:
        candidates = self.configs
        early = self.prune.get("early_config_prune")
        if early is not None:
            positional = {name: value for name, value in known.items() if name not in kwargs}
            candidates = list(early(candidates, positional, **kwargs))
        if not candidates:
            raise ValueError("autotune: no configuration is left; early_config_prune expected to keep at least one")
        model, top_k = self.prune.get("perf_model"), self.prune.get("top_k", 1.0)
        if model is None:
            return candidates
        if isinstance(top_k, float) and top_k <= 1.0:
            top_k = max(1, int(len(candidates) * top_k))
        elif isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise TypeError(f"autotune: top_k expected a count, or a share up to 1.0, got {top_k!r}")
        if len(candidates) <= top_k:
            return candidates
        times = {candidate: model(**{**known, **candidate.all_kwargs()}) for candidate in candidates}
        return sorted(times, key=lambda c: times[c])[:top_k]

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Compiles all configurations that would be timed. Returns the compiled kernels, in their order."""
        candidates = self._candidates(self._named(args, kwargs), kwargs)
        return [self._compile(candidate, args, kwargs, grid) for candidate in candidates]

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _choose_among(self, candidates: list[Config], args: Any, kwargs: Any, grid: Any, key: Any) -> Config:
        known = self._named(args, kwargs)
        disk_key = None
        if self.do_bench is None:
            disk_key = choices_on_disk.key_of(self.kernel, _device_of(known), key, candidates)
        stored = choices_on_disk.read(disk_key, len(candidates)) if disk_key is not None else None
        if stored is not None:
            number, text_hash, times = stored
            try:
                compiled = self._compile(candidates[number], args, kwargs, grid)
                is_same = choices_on_disk.hash_of(compiled) == text_hash
            except Exception as error:
                log.info("the stored choice for %s does not compile: %s", self.fn.__name__, error)
                is_same = False
            if is_same:
                self.configs_timings = dict(zip(candidates, times, strict=True))
                self._say(key, candidates[number], "found on disk")
                return candidates[number]
        start = time.perf_counter()
        timings = self._time_all(candidates, args, kwargs, grid)
        self.bench_time = time.perf_counter() - start
        self.configs_timings = timings
        best = min(timings, key=lambda c: timings[c])
        self._say(key, best, f"finished after {self.bench_time:.2f}s")
        if disk_key is not None:
            compiled = self._compile(best, args, kwargs, grid)
            times = [timings[candidate] for candidate in candidates]
            choices_on_disk.write(disk_key, candidates.index(best), choices_on_disk.hash_of(compiled), times)
        return best

    def _say(self, key: Any, best: Config, how: str) -> None:
        log.info("autotuning of %s: %s (%.3f ms), %s", self.fn.__name__, best, self.configs_timings[best], how)
        if config.get("print_autotuning"):
            print(
                f"torch_tile autotuning for function {self.fn.__name__},\nwith key as {key},\n{how},\n"
                f"best config selected: {best};"
            )

    def _compile(self, candidate: Config, args: Any, kwargs: Any, grid: Any) -> Any:
        arguments = self._arguments(candidate, self._named(args, kwargs), kwargs)
        return self.kernel.warmup(*args, grid=grid, **arguments)

    def _compile_all(self, candidates: list[Config], args: Any, kwargs: Any, grid: Any) -> dict[Config, Exception]:
        """Compiles in parallel. Returns why configurations are left out."""

        def compile_one(candidate: Config) -> Exception | None:
            try:
                self._compile(candidate, args, kwargs, grid)
            except Exception as error:
                return error
            return None

        threads = min(len(candidates), int(config.get("threads")) or os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="torch_tile autotune") as pool:
            errors = list(pool.map(compile_one, candidates))
        failed = {c: error for c, error in zip(candidates, errors, strict=True) if error is not None}
        for candidate, error in failed.items():
            if not _is_left_out(error) or len(failed) == len(candidates):
                raise error
            log.info("autotuning of %s leaves out %s: %s", self.fn.__name__, candidate, error)
            if config.get("print_autotuning"):
                print(f"Autotuning kernel {self.fn.__name__} leaves out config {candidate}: {error}")
        return failed

    def _time_all(self, candidates: list[Config], args: Any, kwargs: Any, grid: Any) -> dict[Config, float]:
        known = self._named(args, kwargs)
        failed = self._compile_all(candidates, args, kwargs, grid)
        timings = dict.fromkeys(candidates, float("inf"))
        for candidate in candidates:
            if candidate not in failed:
                if config.get("print_autotuning"):
                    print(f"Autotuning kernel {self.fn.__name__} with config {candidate}")
                timings[candidate] = self._time(candidate, args, kwargs, grid)
        best = min(timings, key=lambda c: timings[c])
        self._before({**known, **best.all_kwargs()}, reset_only=True)
        return timings

    def _time(self, candidate: Config, args: Any, kwargs: Any, grid: Any) -> float:
        """Milliseconds of a launch, with its hooks."""
        from torch_tile.language.timing import do_bench

        known = self._named(args, kwargs)
        arguments, everything = self._arguments(candidate, known, kwargs), {**known, **candidate.all_kwargs()}

        def launch() -> None:
            if candidate.pre_hook is not None:
                candidate.pre_hook(everything)
            self._before(everything)
            try:
                self.kernel.run(*args, grid=grid, **arguments)
            except Exception as error:
                self._after(everything, error)
                raise
            self._after(everything, None)

        if self.do_bench is None:
            return float(do_bench(launch, warmup=5, rep=20, return_mode="median"))
        found = self.do_bench(launch, quantiles=(0.5, 0.2, 0.8))
        return float(found[0] if isinstance(found, (list, tuple)) else found)

    def _before(self, everything: dict[str, Any], reset_only: bool = False) -> None:
        """Before a timed launch; with `reset_only` before the one that counts."""
        if self.pre_hook is not None:
            takes = inspect.signature(self.pre_hook).parameters
            if "reset_only" in takes or any(p.kind is p.VAR_KEYWORD for p in takes.values()):
                self.pre_hook(everything, reset_only=reset_only)
            elif not reset_only:
                self.pre_hook(everything)
            return
        for name in self.reset_to_zero:
            if everything.get(name) is not None:
                everything[name].zero_()
        if not reset_only:
            tensors = {name: everything.get(name) for name in self.restore_value}
            self._kept = {name: value.clone() for name, value in tensors.items() if value is not None}

    def _after(self, everything: dict[str, Any], error: Exception | None) -> None:
        if self.post_hook is not None:
            self.post_hook(everything, exception=error)
            return
        for name, value in self._kept.items():
            everything[name].copy_(value)
        self._kept = {}
