"""Option `max_autotune` on a GPU: the kernels of a graph run with other schedules than those that the model chooses, on
inputs of the sizes at hand, and each keeps the fastest.

The compiler numbers the schedules of a nest, best first by prediction. One program per number has each kernel with its
schedule of that number, so all kernels are timed together, between events around each launch.
"""

from __future__ import annotations

import dataclasses
import logging
import operator
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile import _C, config, disk_cache
from torch_tile.config import Settings
from torch_tile.errors import TileError
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.time_libraries import made_input
from torch_tile.frontend.tracked_views import is_view
from torch_tile.language import choices_on_disk

log = logging.getLogger(__name__)

# A schedule takes the place of the model's if its kernel needs less than this share of the time. Measured times of one
# kernel differ by some hundredths.
_WORTH = 0.97
# As many as csrc/compiler/tile/build/GpuAlternatives.cpp gives.
_MOST_ALTERNATIVES = 24
_NUM_ROUNDS = 7
# Kernels below are as long as what launching one takes.
_LEAST_US = 8.0
_MOST_THREADS = 8
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)

# Arguments whose integers are elements, not places, whatever the operator does with them.
_ELEMENTS = frozenset({"self", "other", "tensors", "x", "src", "source", "values", "mask"})
# But for operators that count what `self` says.
_COUNTING = frozenset({torch.ops.aten.bincount, torch.ops.aten.one_hot, torch.ops.aten.repeat_interleave})

Compile = Callable[[Sequence[int]], _C.Program]
"""Makes the program whose launches have the schedules of these numbers."""


def option(schedules: Sequence[int]) -> dict[str, str]:
    """For the compiler (csrc/compiler/driver/Options.h); nothing where all schedules are the model's."""
    return {"schedules": ",".join(map(str, schedules))} if any(schedules) else {}


# Calls outside that any numbers may be given to, and that nobody else waits for.
_HARMLESS = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "addmm", "bmm", "baddbmm", "linear", "_addmm_activation", "convolution", "convolution_backward"),
        *("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward"),
        *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward"),
        *("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_cudnn_attention_backward"),
        *("sort", "topk", "clone", "copy"),
    )
)


def are_timed(gm: GraphModule, graph: _C.GraphText, settings: Settings) -> bool:
    """Whether schedules are asked for, and the graph can run on inputs that are made for it."""
    is_asked_for = settings["max_autotune"] or settings["autotune_schedules"]
    # With `deterministic` no schedule may add in another order.
    if not is_asked_for or settings["deterministic"] or not graph.device.startswith("cuda"):
        return False
    reason = _reason_against(gm, graph)
    if reason:
        log.info("schedules are not timed: %s", reason)
    return not reason


def _reason_against(gm: GraphModule, graph: _C.GraphText) -> str:
    if graph.symbols:
        return "sizes are dynamic"
    if graph.pycalls or graph.number_inputs:
        return "it calls operators through Python, or takes numbers"
    for _, name, _ in graph.externs:
        if name not in _HARMLESS:
            return f"it calls {name}"
    if not all(isinstance(node.meta.get("val"), torch.Tensor) for node in gm.graph.find_nodes(op="placeholder")):
        return "it takes what is no tensor"
    unsafe = next((node for node in gm.graph.nodes if node.op == "call_function" and not _is_safe(node)), None)
    return f"{unsafe.target} may get an index that is out of range, or assert" if unsafe is not None else ""


def _is_given(node: Node) -> bool:
    """Whether the values are those of an input, of which zeros are made."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        is_copy = node.target in (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default)
        first = node.args[0] if node.args else None
        if not (is_copy or is_view(node)) or not isinstance(first, Node) or _dtype_of(first) not in _INTEGERS:
            return False
        node = first
    return node.op == "placeholder"


def _dtype_of(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _is_safe(node: Node) -> bool:
    """Whether nothing can be out of range: a device does not recover from that. Zeros never are."""
    target = node.target
    if target is operator.getitem:
        return True
    if isinstance(target, GivenKernel):
        return not target.is_user_defined
    if not isinstance(target, torch._ops.OpOverload) or "assert" in str(target):
        return False
    if target.namespace not in ("aten", "prims", "torch_tile"):
        return False
    if torch.Tag.pointwise in target.tags or is_view(node):
        return True
    is_counting = target.overloadpacket in _COUNTING
    for argument, value in zip(target._schema.arguments, node.args, strict=False):
        is_element = argument.name in _ELEMENTS and not is_counting
        if not is_element and not all(map(_is_given, _integers_of(value))):
            return False
    return all(_is_given(operand) for value in node.kwargs.values() for operand in _integers_of(value))


def _integers_of(value: Any) -> list[Node]:
    """Nodes of integer tensors in an argument."""
    nodes = [each for each in pytree.tree_leaves(value) if isinstance(each, Node)]
    return [each for each in nodes if _dtype_of(each) in _INTEGERS]


def _key(graph: _C.GraphText, options: Mapping[str, str]) -> bytes:
    device = choices_on_disk.describe_device(torch.device(graph.device))
    return disk_cache.key_of(
        str(_C.version()), device, "schedules", graph.text, *(f"{k}={options[k]}" for k in sorted(options))
    )


def known(graph: _C.GraphText, options: Mapping[str, str], settings: Settings) -> list[int] | None:
    """What was found before."""
    found = choices_on_disk.read(_key(graph, options), 1, settings)
    try:
        return [int(number) for number in found[1].split(",") if number] if found is not None else None
    except ValueError:
        return None


def fastest(
    gm: GraphModule,
    graph: _C.GraphText,
    program: _C.Program,
    options: Mapping[str, str],
    settings: Settings,
    compile_with: Compile,
) -> list[int]:
    """By launch, the number of the schedule to keep.

    Args:
        gm: the graph.
        graph: its text.
        program: with the schedules that the model chooses.
        options: of the compiler, for all programs.
        settings: of this torch.compile call; `autotune_seconds` is how long the search may take.
        compile_with: makes a program; several threads call it at a time.
    """
    end = time.perf_counter() + settings["autotune_seconds"]
    try:
        with (
            unset_fake_temporarily(),
            _disable_current_modes(),
            torch.no_grad(),
            torch.random.fork_rng(devices=[graph.device]),
        ):
            schedules = _search(gm, graph, program, compile_with, end)
        if schedules is None:
            log.info("schedules are not timed to the end: autotune_seconds are over")
            return []
    except Exception as error:  # no memory, or inputs that are not what the graph expects
        log.info("schedules are not timed: %s", error)
        return []
    choices_on_disk.write(_key(graph, options), 0, ",".join(map(str, schedules)), [0.0], settings)
    return schedules


def _search(
    gm: GraphModule, graph: _C.GraphText, program: _C.Program, compile_with: Compile, end: float
) -> list[int] | None:
    """By launch; None where time is over."""
    if program.num_launches == 0:
        return []
    # Constants are tensors of the user's: what writes inputs gets copies.
    constants = [value.clone() if program.writes_inputs else value for value in graph.constants]
    made = [made_input(node.meta["val"]) for node in gm.graph.find_nodes(op="placeholder")]
    inputs = _Inputs(made, constants)
    timed = _Timed(program, inputs, graph.device)
    usual = _measured({0: timed}, end)
    if usual is None or max(usual[0], default=0) <= _LEAST_US:
        return None if usual is None else []
    count = len(timed.launches)
    others = _alternatives(timed, inputs, graph.device, compile_with, end)
    times = _measured({0: timed, **others}, end) if others is not None else None
    if times is None:
        return None
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(timed.launches):
        groups.setdefault(name, []).append(place)
    schedules = [0] * count
    for places in groups.values():
        totals = {number: sum(of[place] for place in places) for number, of in times.items()}
        best = min(totals, key=totals.__getitem__)
        if totals[best] < _WORTH * totals[0] and totals[0] > _LEAST_US * len(places):
            for place in places:
                schedules[place] = best
    if not any(schedules):
        return []
    # The fastest of many measured times is too short by chance, so what is kept is measured once more.
    final = _Timed(compile_with(schedules), inputs, graph.device)
    again = _measured({0: timed, 1: final}, end)
    if again is None:
        return None
    for name, places in groups.items():
        before, after = (sum(again[number][place] for place in places) for number in (0, 1))
        if after >= _WORTH * before:
            for place in places:
                schedules[place] = 0
        elif any(schedules[place] for place in places):
            _note(f"{name}: schedule {schedules[places[0]]}, {after:.1f} us in place of {before:.1f}")
    return schedules


def _note(text: str) -> None:
    log.info("max_autotune, %s", text)
    if config.get("print_autotuning"):
        print(f"torch_tile autotuning of {text}", file=sys.stderr)


@dataclasses.dataclass
class _Inputs:
    """What programs are called with: tensors that were made for it, then the graph's constants."""

    made: list[torch.Tensor]
    constants: list[torch.Tensor]

    def fresh(self) -> list[Any]:
        """Indices are 0 again: a program may have written them."""
        for value in self.made:
            if value.dtype in _INTEGERS:
                value.zero_()
        return [*self.made, *self.constants]


class _Timed:
    """A program, and the names of the kernels that it launches, in order."""

    def __init__(self, program: _C.Program, inputs: _Inputs, device: str) -> None:
        self.program, self.inputs, self.device = program, inputs, device
        self.names = [row["name"] for row in program.kernels]
        launched = self.once()  # loads code, too
        self.launches = [name for name, _ in launched] if len(launched) == program.num_launches else []
        if not self.launches:
            raise RuntimeError(f"{len(launched)} launches, expected {program.num_launches}")

    def hashes(self) -> list[str]:
        return [row["hash"] for row in self.program.kernels]

    def once(self) -> list[tuple[str, float]]:
        inputs = self.inputs.fresh()
        return _C.time_launches(lambda: self.program(inputs), self.names, self.device)


def _alternatives(
    usual: _Timed, inputs: _Inputs, device: str, compile_with: Compile, end: float
) -> dict[int, _Timed] | None:
    """By number; None where time is over."""
    count = len(usual.launches)

    def make(number: int) -> _C.Program | None:
        if time.perf_counter() > end:
            return None
        try:
            return compile_with([number] * count)
        except TileError as error:  # too little of a resource, for one of the kernels
            log.info("schedules %d are left out: %s", number, error)
            return None

    numbers = range(1, _MOST_ALTERNATIVES + 1)
    threads = min(int(config.get("threads")) or os.cpu_count() or 1, _MOST_THREADS)
    with ThreadPoolExecutor(threads, thread_name_prefix="torch_tile autotune") as pool:
        made = dict(zip(numbers, pool.map(make, numbers), strict=True))
    if time.perf_counter() > end:
        return None
    found = {}
    for number, program in made.items():
        if program is None or [row["hash"] for row in program.kernels] == usual.hashes():
            continue
        try:
            timed = _Timed(program, inputs, device)
        except RuntimeError as error:  # a block that the device cannot hold
            log.info("schedules %d do not run: %s", number, error)
            continue
        if timed.launches == usual.launches:
            found[number] = timed
    return found


def _measured(programs: dict[int, _Timed], end: float) -> dict[int, list[float]] | None:
    """Times of each launch in microseconds, by number of the program, measured in alternating rounds; None where time
    is over before their end."""
    rounds: dict[int, list[list[float]]] = {number: [] for number in programs}
    for _ in range(_NUM_ROUNDS):
        for number, timed in programs.items():
            if time.perf_counter() > end:
                return None
            rounds[number].append([us for _, us in timed.once()])
    return {number: [statistics.median(column) for column in zip(*of, strict=True)] for number, of in rounds.items()}
