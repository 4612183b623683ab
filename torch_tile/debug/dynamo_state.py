"""Compiles that leave no trace in Dynamo: what was compiled before stays, and nothing is counted or learnt."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo import utils as dynamo_utils

from torch_tile.counters import counters
from torch_tile.debug import places


@dataclasses.dataclass
class GraphBreak:
    """Where Dynamo ended a graph, and why."""

    reason: str
    place: str | None
    count: int = 1

    def line(self) -> str:
        head = self.reason.strip().partition("\n")[0]
        return f"{places.shortened(self.place)}: {head}" if self.place else head


def _place(frames: Any) -> str | None:
    own = [frame for frame in frames or () if not places.is_of_torch(frame.filename)]
    if not own:
        return None
    return f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line or ''}".rstrip(": ")


class Breaks:
    """Graph breaks from the time this is made on."""

    def __init__(self) -> None:
        self._first = len(dynamo_utils.graph_break_reasons)
        self._counted = Counter(dynamo_utils.counters["graph_break"])
        self._refused = Counter(dynamo_utils.counters["unimplemented"])

    def found(self) -> list[GraphBreak]:
        breaks: dict[tuple[str, str | None], GraphBreak] = {}
        for reason in dynamo_utils.graph_break_reasons[self._first :]:
            key = (str(reason.reason), _place(reason.user_stack))
            breaks.setdefault(key, GraphBreak(*key, count=0)).count += 1
        if not breaks:  # Dynamo also gives whole frames up, which it counts without a place
            for text, count in (dynamo_utils.counters["graph_break"] - self._counted).items():
                breaks[text, None] = GraphBreak(text, None, count)
        return list(breaks.values())

    def refused(self) -> str | None:
        """What Dynamo first gave up on, such as a sparse argument; it counts neither graph nor graph break then."""
        for text in dynamo_utils.counters["unimplemented"] - self._refused:
            explanation = re.search(r"^ *Explanation: (.+)", text, re.MULTILINE)
            return (explanation[1] if explanation else text.strip().partition("\n")[0]).rstrip(".")
        return None


class Spent:
    """Seconds that Dynamo and what it calls spend compiling, backward graphs included."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started: list[float] = []

    def start(self, *_: Any) -> None:
        self._started.append(time.perf_counter())

    def end(self, *_: Any) -> None:
        if self._started:
            self.seconds += time.perf_counter() - self._started.pop()


@contextlib.contextmanager
def compile_time() -> Iterator[Spent]:
    """Measures compiles in the block."""
    spent = Spent()
    try:
        from torch._dynamo.callback import callback_handler
    except ImportError:
        yield spent
        return

    def register() -> None:
        callback_handler.register_start_callback(spent.start)
        callback_handler.register_end_callback(spent.end)

    of_handler = vars(callback_handler)
    clear, outer = callback_handler.clear, of_handler.get("clear")

    def clear_others() -> None:
        """torch._dynamo.reset() removes all callbacks, and those of the block stay."""
        clear()
        register()

    register()
    of_handler["clear"] = clear_others
    try:
        yield spent
    finally:
        if outer is None:
            del of_handler["clear"]
        else:
            of_handler["clear"] = outer
        with contextlib.suppress(ValueError):  # a block on another thread has replaced `clear` in between
            callback_handler.remove_start_callback(spent.start)
            callback_handler.remove_end_callback(spent.end)


def _restore(current: Any, before: dict[str, Any]) -> None:
    for name in list(current):
        current[name].clear()
    for name, values in before.items():
        current[name].update(values)


@contextlib.contextmanager
def untouched(backend: Any) -> Iterator[None]:
    """At the end of the block Dynamo's counts, ours, and what Dynamo has learnt of sizes are what they were, and what
    `backend` compiled is dropped."""
    from torch._dynamo import pgo

    dynamo_counts = {name: Counter(values) for name, values in dynamo_utils.counters.items()}
    own_counts = counters.snapshot()
    times = {name: len(values) for name, values in dynamo_utils.compilation_time_metrics.items()}
    num_breaks = len(dynamo_utils.graph_break_reasons)
    learnt = copy.deepcopy(getattr(pgo, "_CODE_STATE", None))
    try:
        yield
    finally:
        _drop_compiled(backend)
        _restore(dynamo_utils.counters, dynamo_counts)
        del dynamo_utils.graph_break_reasons[num_breaks:]
        counters.clear()
        for name, amount in own_counts.items():
            counters.add(name, amount)
        for name in list(dynamo_utils.compilation_time_metrics):
            del dynamo_utils.compilation_time_metrics[name][times.get(name, 0) :]
            if name not in times:
                del dynamo_utils.compilation_time_metrics[name]
        if hasattr(pgo, "_CODE_STATE"):
            pgo._CODE_STATE = learnt


def _drop_compiled(backend: Any) -> None:
    """What Dynamo does where an object that a guard names is gone: the entry never matches again, and its code goes."""
    from torch._C._dynamo import eval_frame
    from torch._dynamo import convert_frame

    with contextlib.suppress(Exception):  # private parts; what is left then is memory
        for reference in list(convert_frame.input_codes.seen):
            code = reference()
            for entry in eval_frame._debug_get_cache_entry_list(code) if code is not None else ():
                if entry.backend is backend:
                    manager: Any = entry.guard_manager
                    manager.extra_state.invalidate(manager.cache_entry, manager)


def compile_apart(function: Any, backend: Callable[..., Any], dynamic: bool | None) -> Callable[..., Any]:
    """`torch.compile` under a backend of its own, so that Dynamo neither finds nor replaces what it compiled before."""
    extra: dict[str, Any] = {}
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        extra["isolate_recompiles"] = True
    compiled: Callable[..., Any] = torch.compile(original(function), backend=backend, dynamic=dynamic, **extra)
    return compiled


@dataclasses.dataclass
class CompiledFor:
    """What a function was given to torch.compile with."""

    backend: str
    mode: str | None = None
    options: Any = None
    dynamic: bool | None = None


def compiled_for(function: Any) -> CompiledFor | None:
    """Backend and arguments of the torch.compile call that `function` came of; None if it came of none, or of
    torch.compiler.disable."""
    try:
        context = getattr(function, "dynamo_ctx", None)
        if context is None:
            call = getattr(function, "_compiled_call_impl", None) or function
            if not hasattr(call, "_torchdynamo_orig_callable"):
                return None
            context = inspect.getclosurevars(call).nonlocals["self"]
        wrapper = context.callback
        if not callable(wrapper):  # torch.compiler.disable
            return None
        while hasattr(wrapper, "_torchdynamo_orig_backend"):
            wrapper = wrapper._torchdynamo_orig_backend
        given = getattr(wrapper, "kwargs", {})
        name = getattr(wrapper, "compiler_name", None) or getattr(wrapper, "__name__", type(wrapper).__name__)
        return CompiledFor(str(name), given.get("mode"), given.get("options"), context._dynamic)
    except Exception:  # private parts
        return None


def original(function: Any) -> Any:
    """What was given to torch.compile, where `function` came of it."""
    if isinstance(function, torch._dynamo.eval_frame.OptimizedModule):
        return function._orig_mod
    return getattr(function, "_torchdynamo_orig_callable", function)


@contextlib.contextmanager
def without_own_compile(function: Any) -> Iterator[None]:
    """Inside the block modules that were compiled in place, by `module.compile()`, are plain ones."""
    changed = []
    if isinstance(function, torch.nn.Module):
        for module in function.modules():
            if module._compiled_call_impl is not None:
                changed.append((module, module._compiled_call_impl))
                module._compiled_call_impl = None
    try:
        yield
    finally:
        for module, compiled in changed:
            module._compiled_call_impl = compiled
