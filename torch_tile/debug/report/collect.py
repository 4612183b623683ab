"""Runs a script or a function and keeps what its report shows: every structured entry, and one call under the profiler.

The profiled call begins where the first compiled function is called, and ends where it is called again: one step of
a training loop, backward and all. The last whole one counts, so that neither compiling nor cold caches are within.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch_tile.debug import scripts, trace
from torch_tile.debug.report.entries import Span, Trace, read

_MOST_EVENTS = 20_000
_PROFILED_CALLS = 4


class CallProfiler:
    """Profiles what happens between calls of one compiled function.

    It begins and ends outside of compiled code: torch's profiler does not survive being stopped within it.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._first: Any = None
        self._depth = 0
        self._profile: Any = None
        self._count = 0

    @contextlib.contextmanager
    def call(self, function: Any) -> Iterator[None]:
        """A call of a compiled function."""
        if self._first is None:
            self._first = function
        if function is self._first and self._depth == 0 and self._count <= _PROFILED_CALLS:
            self._keep()
            self._count += 1
            if self._count <= _PROFILED_CALLS:
                self._start()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _start(self) -> None:
        import torch

        if torch.autograd.profiler._is_profiler_enabled:
            return  # the script's own
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._profile.__enter__()

    def stop(self) -> None:
        """The program is over. What the last call is part of counts where no other call is without a compile."""
        self._keep(is_wanted=self._count <= 2 or not self.spans)

    def _keep(self, is_wanted: bool = True) -> None:
        profile, self._profile = self._profile, None
        if profile is None:
            return
        profile.__exit__(None, None, None)
        if is_wanted and (spans := _spans_of(profile.events())):
            self.spans = spans


def _spans_of(events: Sequence[Any]) -> list[Span]:
    """Events of the profiler as nested spans; those of other threads stand below."""
    found = [
        (event.thread, event.time_range.start, event.time_range.end, event.name)
        for event in events
        if not event.is_async and event.time_range.end > event.time_range.start
    ]
    threads = list(dict.fromkeys(thread for thread, begin, *_ in sorted(found, key=lambda e: e[1])))
    spans: list[Span] = []
    base = 0
    for thread in threads:
        open_: list[float] = []
        deepest = 0
        for _, begin, end, name in sorted((e for e in found if e[0] == thread), key=lambda e: (e[1], -e[2])):
            while open_ and open_[-1] <= begin:
                open_.pop()
            spans.append(Span(name, begin, end, base + len(open_)))
            deepest = max(deepest, len(open_))
            open_.append(end)
        base += deepest + 1
    return spans[:_MOST_EVENTS]


def _mark(trace_: Trace) -> None:
    """Says of each span whether it is a kernel or a call outside; what is within a call is neither."""
    kinds = {step["name"]: step["kind"] for graph in trace_.graphs for step in graph["program"]["steps"]}
    names = {name.partition(".")[0]: kind for name, kind in kinds.items()} | kinds
    outer: Span | None = None
    for span in sorted(trace_.call, key=lambda s: (s.begin, s.depth)):
        kind = names.get(span.name) or ("call" if span.name.startswith("onednn::") else None)
        is_within = outer is not None and span.begin < outer.end and span.depth > outer.depth
        if kind is not None and not is_within:
            span.lane = "kernel" if kind == "kernel" else "call"
            outer = span


@contextlib.contextmanager
def _watching(profiler: CallProfiler) -> Iterator[None]:
    """Every call of what torch.compile gives in the block is one of the profiler's."""
    import torch
    from torch._dynamo.eval_frame import OptimizedModule

    torchs_compile: Any = torch.compile
    torchs_call: Any = OptimizedModule.__call__

    def compile(*args: Any, **kwargs: Any) -> Any:
        result = torchs_compile(*args, **kwargs)
        if isinstance(result, torch.nn.Module) or not (args or "model" in kwargs):
            return result  # modules are seen by their class, and a decorator comes here again

        @functools.wraps(result)
        def call(*args: Any, **kwargs: Any) -> Any:
            with profiler.call(result):
                return result(*args, **kwargs)

        return call

    def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
        with profiler.call(self):
            return torchs_call(self, *args, **kwargs)

    torch.compile, OptimizedModule.__call__ = compile, call_module  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.compile, OptimizedModule.__call__ = torchs_compile, torchs_call  # type: ignore[method-assign]


@contextlib.contextmanager
def collected(title: str) -> Iterator[Trace]:
    """What happens in the block; the trace is filled when it ends."""
    import torch

    result = Trace(title)
    profiler = CallProfiler()
    with trace.collecting() as collector, _watching(profiler):
        try:
            yield result
        finally:
            profiler.stop()
            found = read(collector.entries, title)
            result.graphs, result.phases, result.caches = found.graphs, found.phases, found.caches
            result.call = profiler.spans
            result.versions = {"torch": torch.__version__, "python": sys.version.split()[0]}
            _mark(result)


def of_script(path: Path, arguments: Sequence[str] = ()) -> Trace:
    """Runs a script as `python script.py arguments` does. Its own exit or exception ends the script alone."""
    with collected(path.name) as result:
        result.end = scripts.run(path, arguments)
    return result
