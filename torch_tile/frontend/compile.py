"""One ATen graph to one callable: print it, compile it, or run it in eager mode where that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.descriptors import PlainAOTInput, SyntheticBaseAOTInput, ViewBaseAOTInput
from torch._functorch._aot_autograd.logging_utils import get_aot_graph_name
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule

from torch_tile import _C, cache_artifacts, config, disk_cache, targets
from torch_tile.config import Settings
from torch_tile.debug import calls, faults, limits, observe, phases, places, record
from torch_tile.debug.dump import Dump
from torch_tile.debug.failures import Sources, note_steps
from torch_tile.errors import OutOfResources, OverlappingInputsError, TileError
from torch_tile.frontend import containment, cudagraphs, time_libraries, time_schedules, unbound_sizes
from torch_tile.frontend.convolution_biases import separate_biases
from torch_tile.frontend.decompositions import decomposition_table
from torch_tile.frontend.flex.blocks import MOST_HALVINGS
from torch_tile.frontend.flex.call import is_flex_attention
from torch_tile.frontend.flex.written import launch_written_attention
from torch_tile.frontend.higher_order import prepare_higher_order
from torch_tile.frontend.input_views import view_inputs
from torch_tile.frontend.language_kernels import replace_language_kernels
from torch_tile.frontend.number_arguments import as_torch_calls_it
from torch_tile.frontend.object_inputs import objects_as_numbers, passing_objects_on
from torch_tile.frontend.padded_products import pad_products
from torch_tile.frontend.part_writes.at_indices import write_at_indices
from torch_tile.frontend.part_writes.interleaved import stack_interleaved
from torch_tile.frontend.part_writes.into_inputs import write_into_inputs
from torch_tile.frontend.products.fuse import fuse_narrow_products, fuse_products
from torch_tile.frontend.pycalls import first_in_python, make_pycalls
from torch_tile.frontend.random_states import give_random_results
from torch_tile.frontend.reload import ask_remote, count, give_remote, names_of, sink
from torch_tile.frontend.restrided_inputs import beginning_where_inputs_do, restrided_inputs
from torch_tile.frontend.sorts.replace import replace_sorts
from torch_tile.frontend.sparse_results import making_sparse_results, without_sparse_results
from torch_tile.frontend.storage_views import refuse_views_beyond_writes
from torch_tile.frontend.tracked_views import tracking, views_to_track
from torch_tile.frontend.triton_kernels import replace_triton_kernels

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Binding:
    """What a program is bound to besides its graph: arguments of a call that it has as constants (frontend/freezing).

    `otherwise` takes the arguments of a call in which one of them has changed.
    """

    frozen: dict[int, _C.TensorState]
    """By position among the arguments."""
    packable: list[int]
    """`id` of the constants that never change."""
    otherwise: Callable[[list[Any]], Any] | None
    report: Any
    entry: Callable[[Sequence[torch.Tensor]], dict[str, Any] | None] | None = None
    """What to keep on disk, given the constants of the program in their order."""


def compile_graph(
    gm: GraphModule, inputs: Sequence[Any], kind: str, settings: Settings, binding: Binding | None = None
) -> Callable[..., Any]:
    """A boxed callable: takes one list, empties it, returns the outputs.

    Args:
        gm: ATen ops, with fake tensors in `meta["val"]`.
        inputs: fake inputs.
        kind: forward, backward or inference.
        settings: of this torch.compile call.
        binding: of a graph whose parameters are frozen. The callable takes them too.

    Raises:
        Exception: of any kind, for the caller to contain (frontend/containment.py). A backward graph, whose caller is
            autograd, raises under `strict` alone.
    """
    _C.set_buffer_limit(config.get("buffer_limit_bytes"))
    name = get_aot_graph_name()
    if _has_meta_inputs(gm):
        log.info("%s: tensors on the meta device have no values to compute", name)
        return without_frozen(make_boxed_func(gm.forward), binding)
    if not limits.is_graph_compiled(settings):
        return without_frozen(make_boxed_func(gm.forward), binding)
    if apart := without_sparse_results(gm):
        gm, results_of = apart
        return making_sparse_results(compile_graph(gm, inputs, kind, settings, binding), results_of)
    dump = None
    try:
        if settings["debug"]:
            dump = Dump.start(name, is_asked_for=True)
            dump.write_graph(gm)
            dump.write_script(gm)
        shared = _shared_forms(gm) if kind != "backward" and binding is None else {}
        with objects_as_numbers(gm) if binding is None else contextlib.nullcontext() as objects:
            compiled = _compile(gm, name, kind, settings, dump, binding)
        compiled = _of_shared(compiled, shared) if shared else compiled
        compiled = dump.keep_inputs(compiled) if dump and binding is None else compiled
        return passing_objects_on(compiled, objects) if objects else compiled
    except Exception as error:
        dump = containment.dump_failure(gm, name, error, dump=dump)
        with contextlib.suppress(AttributeError):
            error.torch_tile_dump = dump  # type: ignore[attr-defined]
        if kind != "backward" or containment.is_passed_on(error, settings):
            raise
        containment.fall_back(name, kind, error, gm)
    return make_boxed_func(gm.forward)


def _has_meta_inputs(gm: GraphModule) -> bool:
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    return any(isinstance(value, torch.Tensor) and value.device.type == "meta" for value in values)


_Form = tuple[tuple[Any, ...], bool]


def _shared_forms(gm: GraphModule) -> dict[int, _Form]:
    """For each input that stands for what several arguments share, by place, the sizes and strides that the graph
    knows of it, and whether it is a storage.

    AOTAutograd gives arguments that share memory as one input: the tensor that they are views of, or the storage, as a
    tensor of one dimension. No guard holds its sizes, and the trace may see less of a storage than a call.
    """
    found = {}
    for place, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        desc = node.meta.get("desc")
        if isinstance(desc, (SyntheticBaseAOTInput, ViewBaseAOTInput)):
            form = (*node.meta["val"].shape, *node.meta["val"].stride())
            if any(isinstance(number, int) for number in form):
                known = tuple(number if isinstance(number, int) else None for number in form)
                found[place] = known, isinstance(desc, SyntheticBaseAOTInput)
    return found


def _of_shared(compiled: Callable[..., Any], shared: dict[int, _Form]) -> Callable[..., Any]:
    """Gives a program what it was compiled for, of a storage its beginning. No cache keeps what is not the program."""

    def call(inputs: list[Any]) -> Any:
        for place, (known, is_storage) in shared.items():
            found = (*inputs[place].shape, *inputs[place].stride())
            if len(found) == len(known) and all(a is None or a == b for a, b in zip(known, found, strict=True)):
                continue
            if not is_storage or known[0] is None or found[0] < known[0]:
                raise OverlappingInputsError(
                    "run", f"inputs share a tensor of sizes and strides {found}; compiled for {known}"
                )
            inputs[place] = inputs[place].narrow(0, 0, known[0])
        return compiled(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _compile(
    gm: GraphModule, name: str, kind: str, settings: Settings, dump: Dump | None, binding: Binding | None
) -> Callable[..., Any]:
    start = time.perf_counter()
    if kind != "backward" and binding is None:
        view_inputs(gm)
        faults.point("view_inputs")
    refuse_views_beyond_writes(gm)
    stack_interleaved(gm)
    write_at_indices(gm, settings)
    gm = replace_language_kernels(replace_triton_kernels(gm, settings))
    give_random_results(gm)
    stages: dict[str, str] = {}
    gm, (graph, program, choices) = _prepare_and_compile(gm, kind, settings, dump, stages)
    if limits.limit_kernels(gm, graph, program, settings):
        graph, program, choices = _print_and_compile(gm, kind, settings, dump, stages)
    printed_ms = (time.perf_counter() - start) * 1e3 - program.compile_ms
    give_remote(program, settings)
    faults.point("record")
    cache_artifacts.record(disk_cache.open_cache(settings), program.cache_entries)
    count(program, name)
    for note in program.notes.splitlines():
        line, _, text = note.partition(" ")
        node = _source_of(gm, graph, int(line))
        log.info("%s: %s%s", name, text, f" (first: {node})" if node else "")
    settings.writes_inputs |= program.writes_inputs
    inputs = _inputs_of(gm)
    program._input_names = names_of(inputs, settings)
    recorded = {file: text for file, text in stages.items() if record.wants(file)}
    sources = Sources.of(gm, graph)
    program._note_step = note_steps(lambda: sources)
    record.add(
        record.GraphRecord.of(gm, graph, program, name, kind, recorded, printed_ms, binding.report if binding else None)
    )
    is_cached = settings.cache_dir() is not None and not settings["force_compile"]
    observe.compiled(gm, graph, program, name, kind, stages, import_ms=printed_ms, is_cached=is_cached)
    for node_name, op, reason in graph.externs:
        log.debug("%s: %s (%s) runs outside: %s", name, node_name, op, calls.reason_of(op, reason)[0])
    if dump:
        dump.write_kernels(gm, graph, program)
        dump.write("70-graph.svg", observe.picture(gm, graph, program, name, kind))
        dump.write_index(kind, program)
    entry: dict[str, Any] = {
        "name": name, "kind": kind, "text": graph.text, "device": graph.device, "inputs": inputs,
        "sources": sources.packed(), **choices,
    }  # fmt: skip
    if places_of_restrided := restrided_inputs() if kind != "backward" and binding is None else []:
        settings.reason_against_keeping = "it changes the strides of an input that it writes"
        return beginning_where_inputs_do(as_torch_calls_it(program, graph), places_of_restrided)
    if settings["cudagraphs"]:
        recorded_calls = _recorded(program, gm, graph, entry, settings, binding)
        if recorded_calls is not None:
            # Places among the arguments are those of the graph where none is frozen.
            return tracking(recorded_calls, views_to_track(gm) if kind != "backward" and binding is None else [])
    if binding is not None:
        return _bind(program, gm, graph, binding, entry, settings)
    if views := views_to_track(gm) if kind != "backward" else []:
        return tracking(as_torch_calls_it(program, graph), views)
    # All that the program is made of; Python callables and tensors would have to be kept too.
    settings.reason_against_keeping = _reason_against_keeping(gm, graph)
    if not settings.reason_against_keeping:
        _keep(program, entry)
    return as_torch_calls_it(program, graph)


def _prepare_and_compile(
    given: GraphModule, kind: str, settings: Settings, dump: Dump | None, stages: dict[str, str]
) -> tuple[GraphModule, tuple[_C.GraphText, _C.Program, dict[str, Any]]]:
    """The graph without its higher-order operators, and what `_print_and_compile` makes of it. A device that has no
    room for kernels of attention gets some with smaller blocks, and then none."""
    has_flex = any(is_flex_attention(node) for node in given.graph.nodes)
    smaller = 0
    while True:
        gm = prepare_higher_order(given, lambda: decomposition_table(kind != "inference"), smaller)
        gm, num_written = launch_written_attention(gm, kind, settings, smaller)
        faults.point("replace_kernels")
        limits.limit_operators(gm, settings)
        faults.make_wrong(gm, settings)
        gm = fuse_products(gm, settings, _compiling_alone(kind, settings))
        gm, num_narrow = fuse_narrow_products(gm, settings) if smaller == 0 else (gm, 0)
        gm = separate_biases(pad_products(gm, settings), settings)
        gm = write_into_inputs(replace_sorts(gm, settings), settings)
        try:
            return gm, _print_and_compile(gm, kind, settings, dump, stages)
        except OutOfResources as error:
            if not (has_flex or num_written or num_narrow) or smaller > MOST_HALVINGS:
                raise
            log.info("smaller blocks of attention, no kernels of products: %s", error)
            smaller += 1


def _compiling_alone(kind: str, settings: Settings) -> Callable[[GraphModule], tuple[_C.GraphText, _C.Program]]:
    """Compiles a part of a graph for `fuse_products`."""
    plain = settings.changed(max_autotune=False)
    return lambda gm: _print_and_compile(pad_products(gm, plain), kind, plain, None, {})[:2]


def _print_and_compile(
    gm: GraphModule, kind: str, settings: Settings, dump: Dump | None, stages: dict[str, str]
) -> tuple[_C.GraphText, _C.Program, dict[str, Any]]:
    """Text and program of a graph, and what was chosen for it: the library of its matrix products, and options that the
    compiler got beside those of the settings."""
    with phases.timed("torch_tile.import"), unbound_sizes.solved(gm):
        graph = _C.print_graph(gm)
    if dump:
        dump.write("05-import.mlir", graph.text)
    try:
        pycalls = make_pycalls(gm, graph.pycalls)
        options = {**settings.compiler_options(), **targets.compiler_options(graph.device)}

        def compile_with(library: str, schedules: Sequence[int] = ()) -> _C.Program:
            return _C.compile_graph(
                graph.text,
                {**options, **time_schedules.option(schedules)},
                settings.cache_dir(),
                settings["cache_limit_bytes"],
                sink(dump, stages),
                pycalls,
                force_compile=settings["force_compile"],
                poison=settings["poison"],
                device=graph.device,
                architecture=targets.architecture(graph.device),
                matmul_library=library,
                threads=settings["threads"],
                cache_layers=settings.cache_layers(),
                dump_on_miss=not (dump or record.is_active() or observe.needs_stages()),
            )

        def compile_apart(schedules: Sequence[int]) -> _C.Program:
            """Neither dumped nor kept."""
            target = {**options, **time_schedules.option(schedules)}
            architecture = targets.architecture(graph.device)
            return _C.compile_graph(
                graph.text, target, None, 0, None, [], device=graph.device, architecture=architecture, threads=1
            )

        with phases.timed("torch_tile.compile", "inductor_cumulative_compile_time_us"):
            are_timed = time_schedules.are_timed(gm, graph, settings)
            schedules = time_schedules.known(graph, options, settings) if are_timed else []
            ask_remote(graph.text, {**options, **time_schedules.option(schedules or ())}, settings)
            program = compile_with(settings["matmul_library"], schedules or ())
            if schedules is None:
                schedules = time_schedules.fastest(gm, graph, program, options, settings, compile_apart)
                if any(schedules):
                    program = compile_with(settings["matmul_library"], schedules)
            program, library = time_libraries.fastest(gm, graph, program, kind, settings, compile_with)
        disk_cache.report()
    except TileError as error:
        node = _source_of(gm, graph, error.line)
        if node is not None:
            error.text += f"; from {node}"
        raise
    return graph, program, {"matmul_library": library, "compiler_options": time_schedules.option(schedules)}


def _recorded(
    program: _C.Program,
    gm: GraphModule,
    graph: _C.GraphText,
    entry: dict[str, Any],
    settings: Settings,
    binding: Binding | None,
) -> Callable[..., Any] | None:
    """The program as a CUDA graph; None, and a line in the log, where it is not recorded."""
    kind, frozen = entry["kind"], binding.frozen if binding is not None else {}
    against = settings.reason_against_recording
    against = against or cudagraphs.reason_against(gm, graph.device, kind, bool(graph.pycalls), frozen)
    if against is None and (graph.number_inputs or graph.number_outputs):
        against = "it takes or returns floats or bools"
    if against is None:
        try:
            recording = cudagraphs.Recording.of(gm, graph.device, kind, frozen)
            recorded = cudagraphs.record(as_torch_calls_it(program, graph), recording)
            recorded.__name__ = entry["name"]
            entry["recording"] = dataclasses.asdict(recording)
            if binding is not None and binding.frozen:
                recorded = without_frozen(recorded, binding)
                _keep_frozen(recorded, graph, binding, entry, settings)
            elif not (graph.constants or graph.pycalls or (kind != "backward" and views_to_track(gm))):
                _keep(recorded, entry)
            return recorded
        except Exception as error:
            if settings["strict"]:
                raise
            against = f"that failed: {error!r}"
    # What a forward that is not recorded saves has no fixed address for its backward.
    settings.reason_against_recording = "its forward is not recorded"
    level = logging.WARNING if graph.device.startswith("cuda") else logging.INFO
    log.log(level, "%s is not recorded as a CUDA graph: %s", entry["name"], against)
    return None


def _reason_against_keeping(gm: GraphModule, graph: _C.GraphText) -> str:
    if graph.pycalls:
        return f"it calls an operator through Python: {first_in_python(gm, graph)}"
    if graph.constants:
        return "it holds tensors that are no inputs of it"
    if graph.number_inputs or graph.number_outputs:
        return "it takes or returns floats or bools"
    return ""


def _keep(program: Any, entry: dict[str, Any]) -> None:
    """Lets torch keep the program as part of an entry of AOTAutograd."""
    program._fx_graph_cache_key = json.dumps(entry)
    program._fx_graph_cache_debug_lines = []
    program._boxed_call = True  # wrappers copy what an object has, not what its type has


def _bind(
    program: _C.Program,
    gm: GraphModule,
    graph: _C.GraphText,
    binding: Binding,
    entry: dict[str, Any],
    settings: Settings,
) -> Callable[..., Any]:
    if not binding.frozen and not _reason_against_keeping(gm, graph):
        _keep(program, entry)
    if not binding.frozen or binding.otherwise is None or graph.number_inputs or graph.number_outputs:
        return without_frozen(as_torch_calls_it(program, graph), binding)
    packable = _packable(graph, binding)
    bound = _C.freeze_program(program, list(binding.frozen.items()), graph.constants, packable, binding.otherwise)
    bound.__name__ = program.__name__
    bound._input_names = program._input_names
    bound._note_step = program._note_step
    _keep_frozen(bound, graph, binding, entry, settings)
    return bound


def _packable(graph: _C.GraphText, binding: Binding) -> list[int]:
    return [i for i, constant in enumerate(graph.constants) if id(constant) in binding.packable]


def _keep_frozen(
    program: Any, graph: _C.GraphText, binding: Binding, entry: dict[str, Any], settings: Settings
) -> None:
    """As `_keep`, with what computes the constants again."""
    if not binding.frozen or binding.otherwise is None or binding.entry is None or graph.pycalls:
        return
    frozen = binding.entry(graph.constants)
    if frozen is None:
        settings.reason_against_keeping = "its constants are not computed of parameters alone"
    else:
        _keep(program, {**entry, "frozen": {**frozen, "packable": _packable(graph, binding)}})


def without_frozen(function: Callable[[list[Any]], Any], binding: Binding | None) -> Callable[..., Any]:
    """Checks and drops frozen arguments, as `_C.freeze_program` does."""
    if binding is None or not binding.frozen:
        return function
    frozen, otherwise = binding.frozen, binding.otherwise

    def call(inputs: list[Any]) -> Any:
        if not all(state.is_same(inputs[place]) for place, state in frozen.items()):
            assert otherwise is not None
            return otherwise(inputs)
        rest = [value for place, value in enumerate(inputs) if place not in frozen]
        inputs.clear()
        return function(rest)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _inputs_of(gm: GraphModule) -> list[int | None]:
    """For each input the number of Dynamo's input that it is; None where it is none of those."""
    descriptors = [node.meta.get("desc") for node in gm.graph.find_nodes(op="placeholder")]
    return [d.idx if isinstance(d, PlainAOTInput) else None for d in descriptors]


def _source_of(gm: GraphModule, graph: _C.GraphText, line: int) -> str | None:
    """The user's source line behind a line of the graph text."""
    node = places.nodes_by_name(gm).get(dict(graph.lines).get(line, ""))
    return places.source_line(node) if node is not None else None
