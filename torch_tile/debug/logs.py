"""TORCH_LOGS: the artifacts that torch names for Inductor have our content, too.

| artifact | content |
|---|---|
| output_code | the kernels of a graph in the tile dialect, and its step program |
| fusion | every decision of fusion with its reason |
| schedule | the schedule of each kernel, and the time that the cost model predicts |
| perf_hints | calls outside, kernels that only copy, bodies over their budget, graph breaks |
| recompiles | what a recompile of a frame cost, and which kernels it shares with the one before |

The loggers are named below `torch`, whose handlers torch sets up. `TORCH_LOGS=+torch_tile` shows the messages of the
modules, as for any package.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from torch_tile.debug import calls

if TYPE_CHECKING:
    from torch_tile.debug.observe import Compiled

log = logging.getLogger(__name__)

_NAMES = ("output_code", "fusion", "schedule", "perf_hints", "recompiles")
_NEED_STAGES = ("output_code", "fusion", "schedule")
_COPIES = frozenset(("clone", "permute", "view", "expand", "slice", "select", "unfold", "as_strided", "cast"))

_loggers: dict[str, logging.Logger] = {}
_kernels_of_frame: dict[Any, set[str]] = {}
_graph_breaks: dict[str, int] = {}


def _logger(name: str) -> logging.Logger:
    """The logger of an artifact; a plain one where torch's registry is not as expected."""
    if name not in _loggers:
        try:
            from torch._logging import _internal

            if name not in _internal.log_registry.artifact_names:
                _internal.register_artifact(name, f"{name} of torch-tile", off_by_default=True)
            _loggers[name] = _internal.getArtifactLogger("torch.torch_tile", name)
        except Exception:
            log.debug("torch has no artifact %s", name, exc_info=True)
            _loggers[name] = logging.getLogger(f"torch_tile.{name}")
    return _loggers[name]


def _shows(name: str) -> bool:
    return _logger(name).isEnabledFor(logging.DEBUG)


def is_enabled() -> bool:
    """Whether any of the artifacts is asked for."""
    return any(map(_shows, _NAMES))


def needs_stages() -> bool:
    """Whether one of those is that show what the compiler dumps."""
    return any(map(_shows, _NEED_STAGES))


def write(seen: Compiled) -> None:
    """Log all that is asked for of one graph."""
    writers = {
        "output_code": output_code, "fusion": fusion, "schedule": schedule, "perf_hints": perf_hints,
        "recompiles": recompiles,
    }  # fmt: skip
    for name, text_of in writers.items():
        if _shows(name) and (text := text_of(seen)):
            _logger(name).debug("%s (%s): %s", seen.name, seen.kind, text)


def output_code(seen: Compiled) -> str:
    code = seen.stages.get("30-tile.mlir", "").rstrip()
    return f"kernels in the tile dialect\n{code}\n\nstep program\n{seen.program.steps.rstrip()}"


def fusion(seen: Compiled) -> str:
    decisions = seen.stages.get("20-fusion.txt", "").splitlines()
    counts = [sum(line.startswith(answer) for line in decisions) for answer in ("yes", "no")]
    lines = [f"{counts[0]} fused, {counts[1]} not; lines are those of the graph dialect"]
    named = sorted({int(n) for line in decisions for n in re.findall(r"line (\d+)", line)})
    lines += [f"  {line}" for line in decisions]
    text = seen.text.splitlines()
    lines += [f"  line {n}: {text[n - 1].strip()}{_from(seen, n)}" for n in named if 0 < n <= len(text)]
    return "\n".join(lines)


def _from(seen: Compiled, line: int) -> str:
    return f"  // {seen.sources[line]}" if line in seen.sources else ""


def schedules_of(tile_text: str) -> dict[str, str]:
    """The schedule of each kernel of a module of the tile dialect, as the attribute says it."""
    return dict(re.findall(r'tile\.kernel @(\S+?)\(.*?schedule = "([^"]*)"', tile_text))


def schedule(seen: Compiled) -> str:
    chosen = schedules_of(seen.stages.get("30-tile.mlir", ""))
    launches = [step for step in seen.steps().steps if step.kind == "kernel"]
    total = [step.predicted_ns for step in launches if step.predicted_ns is not None]
    lines = [f"{len(launches)} launches, predicted {sum(total) / 1e3:.1f} us on one thread"]
    for step in launches:
        predicted = "by size" if step.predicted_ns is None else f"{step.predicted_ns / 1e3:.1f} us"
        moved = "bytes by size" if step.bytes_moved is None else f"{step.bytes_moved} bytes"
        lines.append(f"  {step.name}: predicted {predicted}, {moved}; {chosen.get(step.name, 'schedule not known')}")
    return "\n".join(lines)


def _operations(seen: Compiled, lines: list[int]) -> set[str]:
    text = seen.text.splitlines()
    found = (re.search(r"= graph\.(\w+)", text[n - 1]) for n in lines if 0 < n <= len(text))
    return {match[1] for match in found if match}


def perf_hints(seen: Compiled) -> str:
    sources = {node: seen.sources.get(line, "") for line, node in seen.nodes.items()}
    hints = []
    for node, operator, reason in seen.externs:
        where = f"; {sources[node]}" if sources.get(node) else ""
        text, is_by_choice = calls.reason_of(operator, reason)
        if not is_by_choice:
            hints.append(f"call outside: {operator} ({text}){where}")
    for kernel in seen.program.kernels:
        operations = _operations(seen, kernel["lines"])
        if operations and operations <= _COPIES and "clone" in operations:
            size = "bytes by size" if kernel["bytes_moved"] is None else f"{kernel['bytes_moved']} bytes"
            where = next(iter(seen.sources_of(kernel["lines"])), "")
            hints.append(f"copy: kernel {kernel['name']} only moves {size}{f'; {where}' if where else ''}")
    for line, note in seen.notes:
        hints.append(note + _from(seen, line))
    hints += [f"graph break: {reason}" for reason in _new_graph_breaks()]
    repeated: dict[str, int] = {}
    for hint in hints:
        repeated[hint] = repeated.get(hint, 0) + 1
    lines = [f"  {count} x {hint}" if count > 1 else f"  {hint}" for hint, count in repeated.items()]
    return "\n".join([f"{len(hints)} hints", *lines]) if hints else ""


def _new_graph_breaks() -> list[str]:
    """Breaks since the last graph, each with its reason's first line."""
    from torch._dynamo.utils import counters

    found = []
    for reason, count in counters["graph_break"].items():
        if count > _graph_breaks.get(reason, 0):
            found.append(str(reason).strip().split("\n")[0])
        _graph_breaks[reason] = count
    return found


def recompiles(seen: Compiled) -> str:
    from torch._guards import CompileContext

    current = CompileContext.current_compile_id()
    if current is None:
        return ""
    hashes = {kernel["hash"] for kernel in seen.program.kernels}
    frame = (current.frame_id, seen.kind)
    before = _kernels_of_frame.get(frame)
    _kernels_of_frame[frame] = hashes
    if before is None or not current.frame_compile_id:
        return ""
    return (
        f"compiled again as [{current}] in {seen.program.compile_ms:.1f} ms ({seen.program.loaded_from}): "
        f"{len(hashes)} kernels, {len(hashes & before)} of them as before"
    )
