"""Which kernel computes a region fastest: each candidate runs with what stands around the product, on random inputs.

The library's call, with the kernels that the compiler makes for the rest, is a candidate, too.
"""

from __future__ import annotations

import functools
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile import _C, config, disk_cache
from torch_tile.config import Settings
from torch_tile.errors import TileError, UnsupportedError
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.products.blocks import Blocks
from torch_tile.frontend.products.launch import activate_by_library, launch_instead
from torch_tile.frontend.products.region import CONVERSIONS, Region, is_static
from torch_tile.frontend.thin_products import replace_by_sum
from torch_tile.frontend.tile_operators import UnsupportedFunctionError
from torch_tile.language import choices_on_disk

log = logging.getLogger(__name__)

# A candidate takes the place of the library's call if it needs less than this share of its time. Measured times of one
# program differ by some hundredths.
_WORTH = 0.97
_NUM_ROUNDS = 25
# Seconds that the rounds of one region take at most.
_MOST_SECONDS = 1.0
_MOST_THREADS = 8
# Written before a call, so that it finds none of its operands in the second-level cache.
_FLUSHED_BYTES = 256 << 20
# Calls from this on are longer than what the host needs to enqueue them.
_LONG_MS = 0.2
# How long one measurement of long calls lasts, and how long a device works before its clock has risen.
_ROUND_MS = 3.0
_WAKING_SECONDS = 0.05


# A call of the library that computes an activation, too.
ACTIVATED = "library with activation"
# Products of one row as sums that the compiler fuses.
SUMMED = "sum"
# Blocks of a kernel, or one of the names above.
Candidate = Blocks | str


class Choice:
    """What was found.

    Attributes:
        fastest: a candidate; None where it is the library's call.
        times: in ms by candidate, the library's first; infinite for those that cannot be made.
    """

    def __init__(self, candidates: Sequence[Candidate], times: Sequence[float]) -> None:
        self.names, self.times = ["library", *map(str, candidates)], list(times)
        number = min(range(len(times)), key=times.__getitem__)
        self.fastest = candidates[number - 1] if number > 0 and times[number] < _WORTH * times[0] else None

    def table(self) -> str:
        rows = sorted(zip(self.times, self.names, strict=True))
        return ", ".join(f"{name} {1e3 * ms:.1f} us" for ms, name in rows if ms != float("inf"))


class Tuner:
    """Times regions of one graph.

    Args:
        compile_with: makes the program of a graph, and its text.
        settings: of this torch.compile call; `autotune_seconds` is how long all of it may take.
    """

    def __init__(
        self, compile_with: Callable[[GraphModule], tuple[_C.GraphText, _C.Program]], settings: Settings
    ) -> None:
        self.compile_with = compile_with
        self.settings = settings
        self.end = time.perf_counter() + settings["autotune_seconds"]
        self.known: dict[bytes, Choice] = {}

    def choose(self, region: Region, inlined: list[Node], candidates: list[Candidate]) -> Choice | None:
        """The fastest; None where nothing is known and no time is left."""
        alone = extracted(region, inlined)
        graph, library = self.compile_with(alone.gm)
        device = region.products[0].value.device
        names = ["library", *map(str, candidates)]
        described = choices_on_disk.describe_device(device if device.type == "cuda" else None)
        key = disk_cache.key_of(str(_C.version()), described, "product", graph.text, *names)
        if (known := self.known.get(key)) is not None:
            return known
        stored = choices_on_disk.read(key, len(names), self.settings)
        if stored is not None:
            choice = Choice(candidates, stored[2])
        elif time.perf_counter() > self.end:
            return None
        else:
            times = self._times(alone, library, candidates)
            choice = Choice(candidates, times)
            choices_on_disk.write(key, min(range(len(times)), key=times.__getitem__), "", times, self.settings)
            log.info("max_autotune, %s: %s", region.products[0].node.name, choice.table())
            if config.get("print_autotuning"):
                print(f"torch_tile autotuning of {region.products[0].node.name}: {choice.table()}", file=sys.stderr)
        self.known[key] = choice
        return choice

    def _times(self, alone: Extracted, library: _C.Program, candidates: list[Candidate]) -> list[float]:
        """In ms: of the library's program, then of those of the candidates."""
        made = [alone.with_candidate(each) for each in candidates]

        def compile_one(gm: GraphModule | None) -> _C.Program | None:
            try:
                return self.compile_with(gm)[1] if gm is not None else None
            except UnsupportedError as error:  # too little of a resource
                log.info("a candidate is left out: %s", error)
                return None

        threads = min(len(made), int(config.get("threads")) or os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="torch_tile autotune") as pool:
            programs = [library, *pool.map(compile_one, made)]
        with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
            return measured(programs, alone.values)


def put(
    gm: GraphModule, region: Region, inlined: list[Node], candidate: Candidate, kernels: dict[str, GivenKernel]
) -> None:
    """Puts a candidate in the place of a region; see `launch_instead`."""
    if isinstance(candidate, Blocks):
        launch_instead(gm, region, inlined, candidate, kernels)
    elif candidate == ACTIVATED:
        activate_by_library(gm, region)
    else:
        for product in region.products:
            replace_by_sum(gm, product.node)


class Extracted:
    """A region as a graph of its own.

    Attributes:
        gm: takes what the region reads, and gives its outputs.
        values: fake tensors of the inputs.
    """

    def __init__(self, gm: GraphModule, region: Region, inlined: list[Node], values: list[torch.Tensor]) -> None:
        self.gm, self.region, self.inlined, self.values = gm, region, inlined, values

    def with_candidate(self, candidate: Candidate) -> GraphModule | None:
        """The same with a candidate in place of the region; None where there is no kernel."""
        graph = Graph()
        environment: dict[Node, Node] = {}
        result = graph.graph_copy(self.gm.graph, environment)
        graph.output(result)
        gm = GraphModule({}, graph)
        try:
            put(gm, self.region.copied(environment), [environment[n] for n in self.inlined], candidate, {})
        except (UnsupportedFunctionError, TileError) as reason:
            log.info("%s has no kernel of %s: %s", self.region.products[0].node.name, candidate, reason)
            return None
        gm.recompile()
        return gm


def extracted(region: Region, inlined: list[Node]) -> Extracted:
    """The region alone, with inputs of their own memory.

    What computes an input point by point is a part of it, outside of the region: a kernel of the compiler's computes it
    on the way, and a kernel of the region needs it in memory.
    """
    graph = Graph()
    environment: dict[Node, Node] = {}
    values: list[torch.Tensor] = []

    def copy(node: Node) -> None:
        for operand in node.all_input_nodes:
            if operand not in environment:
                if _is_computed_on_the_way(operand):
                    copy(operand)
                else:
                    take(operand)
        environment[node] = graph.node_copy(node, environment.__getitem__)

    def take(node: Node) -> None:
        held = node.meta["val"]
        with graph.inserting_before(next(iter(graph.nodes), None)):
            placeholder = environment[node] = graph.placeholder(f"input_{len(values)}")
        placeholder.meta["val"] = held.new_empty_strided(held.shape, held.stride())
        values.insert(0, placeholder.meta["val"])

    for node in [*inlined, *region.inner]:
        copy(node)
    graph.output(tuple(environment[node] for node in region.outputs))
    return Extracted(GraphModule({}, graph), region.copied(environment), [environment[n] for n in inlined], values)


def _is_computed_on_the_way(node: Node) -> bool:
    """Whether the compiler's kernels compute it where it is needed."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or not is_static(node):
        return False
    if not all(is_static(operand) for operand in node.all_input_nodes):
        return False
    return torch.Tag.pointwise in target.tags or target in (*CONVERSIONS, torch.ops.torch_tile.philox_uniform.default)


def random_inputs(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors like these. The user's random numbers stay as they are: the generator is another one."""
    made = []
    for fake in values:
        extent = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True)) + 1
        memory = torch.empty(extent, dtype=fake.dtype, device=fake.device)
        generator = torch.Generator(fake.device).manual_seed(0)
        if fake.dtype.is_floating_point:
            memory.normal_(generator=generator)
        else:  # nothing is indexed with it; zeros are computed faster than other numbers on some devices
            memory.random_(0, 2 if fake.dtype is torch.bool else 100, generator=generator)
        made.append(memory.as_strided(fake.shape, fake.stride()))
    return made


def measured(programs: list[Any], values: list[torch.Tensor]) -> list[float]:
    """Times of a call in ms, measured in alternating rounds; None among the programs takes forever."""
    inputs = random_inputs(values)
    device = inputs[0].device

    def calling(program: Any) -> Callable[[], Any]:
        return lambda: program(list(inputs))

    calls = [calling(program) if program is not None else None for program in programs]
    for call in calls:  # the first call loads code
        if call is not None:
            call()
    once = _on_device(device, calls) if device.type == "cuda" else _by_clock
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + _MOST_SECONDS
    for number in range(_NUM_ROUNDS):
        if number > 1 and time.perf_counter() > end:
            break
        for place, call in enumerate(calls):
            if call is not None:
                times[place].append(once(call))
    # What a processor does beside disturbs some calls, and makes none faster.
    summary = statistics.median if device.type == "cuda" else min
    return [summary(each) if each else float("inf") for each in times]


def _by_clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def _on_device(device: torch.device, calls: list[Any]) -> Callable[[Callable[[], Any]], float]:
    """Times one call by events of the stream: a short one with a cold cache, a long one as it is among its like, where
    the device draws the power that it may."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def several(call: Callable[[], Any], count: int) -> float:
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / count

    waked = time.perf_counter() + _WAKING_SECONDS
    while time.perf_counter() < waked:
        several(calls[0], 10)
    estimate = several(calls[0], 10)
    if estimate > _LONG_MS:
        return functools.partial(several, count=max(2, int(_ROUND_MS / estimate)))
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device=device)

    def once(call: Callable[[], Any]) -> float:
        flushed.zero_()  # the device is busy with this while the host enqueues the call
        return several(call, 1)

    return once
