"""torch_tile.explain: kernels, fusion decisions and calls outside of one call."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch_tile.debug import places, record
from torch_tile.debug.dynamo_state import (
    Breaks,
    GraphBreak,
    compile_apart,
    compile_time,
    compiled_for,
    untouched,
    without_own_compile,
)
from torch_tile.errors import OptionError

_NUM_SHOWN_CALLS = 3
_DECISION = re.compile(r"(yes|no) +(\w+)(?: line (\d+))?(?: with line (\d+))?: (.*)")


@dataclasses.dataclass
class Explanation:
    """What one call compiled: its graphs in order of compilation, and where Dynamo broke the graph."""

    graphs: list[record.GraphRecord]
    graph_breaks: list[GraphBreak]
    compile_ms: float = 0.0
    """Dynamo, AOTAutograd and this package, for all graphs."""
    eager_peak_bytes: int | None = None
    """What eager mode would take at most, where that is known."""
    result_bytes: int = 0
    """What is returned, which is held while gradients are computed."""
    verbose: bool = False
    other_backend: str | None = None
    """That the function which is explained was compiled for."""
    reason_of_eager: str | None = None
    """Why Dynamo gave whole functions up, where no graph was compiled."""

    @property
    def num_kernels(self) -> int:
        return sum(len(g.kernels) for g in self.graphs)

    @property
    def num_launches(self) -> int:
        return sum(kernel.launches for g in self.graphs for kernel in g.kernels)

    @property
    def externs(self) -> list[tuple[str, str, str]]:
        """(node, operator, reason) of every call outside."""
        return [extern for g in self.graphs for extern in g.externs]

    @property
    def num_fallbacks(self) -> int:
        return sum(graph.fallback for graph in self.graphs)

    @property
    def kernel_bytes(self) -> int:
        """Read and written by kernels in one call, with sizes as they were when the graphs were compiled. Branches and
        iterations of loops count once each."""
        return sum(kernel.hinted_bytes for g in self.graphs for kernel in g.kernels)

    @property
    def call_bytes(self) -> int:
        """Operands and results of calls outside."""
        return sum(call.num_bytes or 0 for g in self.graphs for call in g.calls)

    @property
    def peak_bytes(self) -> int:
        """Memory that is planned at most, beside arguments and parameters."""
        return max((g.peak_bytes + (self.result_bytes if g.kind == "backward" else 0) for g in self.graphs), default=0)

    def summary(self) -> str:
        """At most ten lines."""
        own_ms = sum(g.import_ms + g.compile_ms for g in self.graphs)
        kinds = places.collapsed(g.kind for g in self.graphs)
        eager = "" if self.eager_peak_bytes is None else f"; eager mode's: {size(self.eager_peak_bytes)}"
        other = f"; the function itself is compiled for {self.other_backend!r}" if self.other_backend else ""
        lines = [
            f"{_number(len(self.graphs), 'graph')} ({', '.join(kinds)}), compiled in {self.compile_ms:.0f} ms, "
            f"of which torch-tile took {own_ms:.0f}{other}",
            f"{_number(self.num_kernels, 'kernel')} in {_number(self.num_launches, 'launch')}, "
            f"{_number(len(self.externs), 'call')} outside, {_number(self.num_fallbacks, 'graph')} in eager mode",
            f"bytes moved by a call: {size(self.kernel_bytes)} by kernels, {size(self.call_bytes)} by calls outside",
            f"planned peak memory, beside arguments and parameters: {size(self.peak_bytes)}{eager}",
        ]
        if any(g.has_uncertain for g in self.graphs):
            lines[2] += ", with each branch and one iteration of each loop"
        if not self.graphs:
            reason = self.reason_of_eager or "nothing in the call is torch's, or Dynamo gave it up"
            lines = [f"no graph was compiled: {reason}"]
        lines += [f"  in eager mode: {g.name} ({g.kind}): {_first(g.notes)}" for g in self.graphs if g.fallback][:1]
        calls = self._largest_calls()
        if calls:
            lines += ["largest calls outside:", *(f"  {line}" for line in calls[:_NUM_SHOWN_CALLS])]
        if self.graph_breaks:
            count = sum(each.count for each in self.graph_breaks)
            lines.append(f"{_number(count, 'graph break')}, the first at {self.graph_breaks[0].line()}")
        elif self.graphs:
            lines.append("no graph breaks")
        return "\n".join(lines)

    def _largest_calls(self) -> list[str]:
        sums: dict[str, list[int]] = {}
        for call in (call for g in self.graphs for call in g.calls):
            entry = sums.setdefault(call.line(), [0, 0])
            entry[0] += 1
            entry[1] += call.num_bytes or 0
        ordered = sorted(sums.items(), key=lambda item: -item[1][1])
        return [f"{f'{count} x ' if count > 1 else ''}{size(total)} {line}" for line, (count, total) in ordered]

    def details(self) -> str:
        """Everything: kernels with the lines they come from, decisions of the fuser, calls, graph breaks."""
        lines = [self.summary()]
        for graph in self.graphs:
            lines += ["", *_graph_lines(graph)]
        lines += ["", "graph breaks:" if self.graph_breaks else "no graph breaks"]
        for each in self.graph_breaks:
            head, *rest = each.reason.strip().splitlines()
            lines.append(f"  {each.count} x {places.shortened(each.place) if each.place else 'somewhere'}: {head}")
            lines += [f"      {line.strip()}" for line in rest if line.strip()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.details() if self.verbose else self.summary()

    __repr__ = __str__


def size(num_bytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} GB"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "es" if what.endswith("ch") else "s")


def _first(lines: list[str]) -> str:
    return lines[0].partition("\n")[0] if lines else "see the warning"


def _graph_lines(graph: record.GraphRecord) -> list[str]:
    if graph.fallback:
        return [f"{graph.name} ({graph.kind}): runs in eager mode: {_first(graph.notes)}"]
    lines = [f"{graph.name} ({graph.kind}): {graph.loaded_from} in {graph.compile_ms:.1f} ms"]
    if graph.freezing is not None:
        lines += [f"  {line}" for line in graph.freezing.lines()]
    for kernel in graph.kernels:
        moved = size(kernel.hinted_bytes) + (" (depends on sizes)" if kernel.bytes_moved is None else "")
        times = f"{kernel.launches} x " if kernel.launches > 1 else ""
        lines.append(f"  {times}kernel {kernel.name}: {moved}")
        lines += [f"    {places.shortened(source)}" for source in kernel.sources]
    lines += [f"  note: {note}" for note in graph.notes]
    decisions = places.collapsed(decisions_of(graph))
    if decisions:
        lines += ["  fusion:", *(f"    {line}" for line in decisions)]
    lines += [f"  outside {line}" for line in places.collapsed(call.line() for call in graph.calls)]
    return lines


def decisions_of(graph: record.GraphRecord, refused_only: bool = False) -> Iterator[str]:
    """What the fuser decided, in the user's lines."""

    def named(line: str | None) -> str:
        node, place = graph.operations.get(int(line or 0), ("", ""))
        name = re.sub(r"(_\d+)?$", "", node)
        where = ":".join(places.shortened(place).split(":")[:2])
        return f"{name} ({where})" if where else name or f"line {line} of the graph"

    for text in graph.stages.get("20-fusion.txt", "").splitlines():
        match = _DECISION.match(text)
        if match is None or (refused_only and match[1] == "yes"):
            continue
        answer, verb, producer, consumer, reason = match.groups()
        subject = " with ".join(named(line) for line in (producer, consumer) if line)
        yield f"{answer:3} {verb} {subject}: {reason}"


@contextlib.contextmanager
def recorded() -> Iterator[Explanation]:
    """Collects what is compiled in the block, by whatever calls the backend."""
    explanation = Explanation([], [])
    breaks = Breaks()
    with record.recording() as graphs, compile_time() as spent:
        explanation.graphs = graphs
        try:
            yield explanation
        finally:
            explanation.graph_breaks = breaks.found()
            explanation.compile_ms = spent.seconds * 1e3
            if not graphs and (refused := breaks.refused()):
                explanation.reason_of_eager = f"Dynamo left it to eager mode: {refused}"


def explain(
    fn: Callable[..., Any],
    *args: Any,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    verbose: bool = False,
    **kwargs: Any,
) -> Explanation:
    """Compile `fn` apart from whatever is compiled already, run it once on the arguments, and say what came of it.

    Where the result needs gradients and `fn` has not asked for them, they are computed and dropped, so that the
    backward is explained too. What else a call of `fn` changes (buffers, arguments that it writes) is changed.

    Args:
        fn: a function or module; of a compiled one what it was made of. One that was compiled for another backend is
            compiled for this one.
        mode: of torch.compile. Without mode and options those that `fn` was compiled with.
        options: of torch.compile.
        dynamic: of torch.compile. Without it that of `fn`.
        verbose: print everything, not only the first ten lines.
        kwargs: keyword arguments of `fn`. Those with one of the names above go into a functools.partial:
            `explain(functools.partial(fn, mode="sum"), x)`.

    Returns:
        An object to print. `details()` has all of it: kernels with the source lines they come from, fusion decisions,
        calls outside with reasons, graph breaks.

    Raises:
        torch_tile.errors.OptionError: an unknown mode or option, or both a mode and options.
        TypeError: `fn` cannot be called.
    """
    import torch

    from torch_tile.debug import memory
    from torch_tile.frontend.aot import compile_with_autograd
    from torch_tile.frontend.options import settings_of

    if mode is not None and options is not None:
        raise OptionError(
            f"explain expected a mode or options, got both, which torch.compile refuses: "
            f"options={{**torch_tile.list_mode_options({mode!r}), ...}} holds those of the mode"
        )
    if not callable(fn):
        raise TypeError(
            f"fn expected a function or module, got {type(fn).__name__}: call it as explain(fn, *arguments)"
        )
    known_for = compiled_for(fn)
    other_backend = None
    if known_for is not None:
        if known_for.backend != "tile":
            other_backend = known_for.backend
        elif mode is None and options is None:
            mode, options = known_for.mode, known_for.options
        dynamic = known_for.dynamic if dynamic is None else dynamic
    settings = settings_of(mode, options)
    captured: list[tuple[torch.fx.GraphModule, list[Any], bool]] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        copied = torch.fx.GraphModule(gm, torch.fx.Graph())
        copied.graph.output(copied.graph.graph_copy(gm.graph, {}))
        copied.recompile()
        captured.append((copied, list(example_inputs), torch.is_grad_enabled()))
        return compile_with_autograd(gm, example_inputs, settings)

    with untouched(backend), without_own_compile(fn), recorded() as explanation:
        result = compile_apart(fn, backend, dynamic)(*args, **kwargs)
        if not any(graph.kind == "backward" for graph in explanation.graphs):
            _ask_for_gradients(result)
    explanation.verbose, explanation.other_backend = verbose, other_backend
    if not explanation.graphs and explanation.reason_of_eager is None and _has_sparse((args, kwargs)):
        explanation.reason_of_eager = "an argument is a sparse tensor, which Dynamo leaves to eager mode"
    eager = [memory.eager_memory(gm, inputs, enabled) for gm, inputs, enabled in captured]
    known = [each for each in eager if each is not None]
    if known and len(known) == len(eager):
        explanation.eager_peak_bytes = max(each.peak_bytes for each in known)
    explanation.result_bytes = max((each.result_bytes for each in known), default=0)
    return explanation


def _has_sparse(arguments: Any) -> bool:
    """Dynamo says why it gave a function up in the first call alone."""
    import torch
    from torch._subclasses.meta_utils import is_sparse_any
    from torch.utils import _pytree as pytree

    return any(isinstance(x, torch.Tensor) and is_sparse_any(x) for x in pytree.tree_leaves(arguments))


def _ask_for_gradients(result: Any) -> None:
    """Computes gradients of all tensors in `result` without keeping any, so that backward graphs are compiled."""
    import torch
    from torch.utils import _pytree as pytree

    ends = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    leaves: dict[int, torch.Tensor] = {}
    seen, waiting = set(), [x.grad_fn for x in ends]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        waiting += [each for each, _ in node.next_functions]
    if ends and leaves:
        torch.autograd.grad(ends, list(leaves.values()), [torch.ones_like(x) for x in ends], allow_unused=True)
