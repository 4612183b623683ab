"""Programs of graphs whose text is known: a warm start imports this, and nothing that traces or compiles."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch_tile import _C, cache_artifacts, config, disk_cache, remote_cache, targets
from torch_tile.counters import counters
from torch_tile.debug import observe, phases, record
from torch_tile.debug.failures import Sources, note_steps

if TYPE_CHECKING:
    from torch_tile.config import Settings
    from torch_tile.debug.dump import Dump

log = logging.getLogger(__name__)


def names_of(inputs: Sequence[int | None], settings: Settings) -> list[str | None]:
    """What the user calls the inputs, for messages; None where it is not known."""
    names = settings.argument_names
    return [names[number] if number is not None and number < len(names) else None for number in inputs]


def reload_graph(payload: str, settings: Settings) -> Callable[..., Any]:
    """The program of a graph again, from the `_fx_graph_cache_key` that `compile_graph` gave it."""
    graph = json.loads(payload)
    program = compile_text(graph["text"], graph, settings)
    program._input_names = names_of(graph.get("inputs", ()), settings)
    return recorded_as(graph, program, program)


def recorded_as(entry: dict[str, Any], program: _C.Program, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a reloaded program, as a CUDA graph if it was one."""
    recording = entry.get("recording")
    if recording is None:
        return call
    from torch_tile.frontend import cudagraphs

    recorded = cudagraphs.record(call, cudagraphs.Recording(**recording))
    recorded.__name__ = program.__name__
    return recorded


def compile_text(text: str, entry: dict[str, Any], settings: Settings) -> _C.Program:
    """The program of a graph's text, as a rule from the disk; `entry` has its name, kind and device."""
    _C.set_buffer_limit(config.get("buffer_limit_bytes"))
    stages: dict[str, str] = {}
    with phases.timed("torch_tile.load", "inductor_cumulative_compile_time_us"):
        options = {
            **settings.compiler_options(), **targets.compiler_options(entry["device"]),
            **entry.get("compiler_options", {}),
        }  # fmt: skip
        ask_remote(text, options, settings)
        program = _C.compile_graph(
            text,
            options,
            settings.cache_dir(),
            settings["cache_limit_bytes"],
            sink(None, stages),
            [],
            poison=settings["poison"],
            device=entry["device"],
            architecture=targets.architecture(entry["device"]),
            matmul_library=entry.get("matmul_library", settings["matmul_library"]),
            threads=settings["threads"],
            cache_layers=settings.cache_layers(),
            dump_on_miss=True,
        )
        give_remote(program, settings)
    disk_cache.report()
    cache_artifacts.record(disk_cache.open_cache(settings), program.cache_entries)
    count(program, entry["name"])
    settings.writes_inputs |= program.writes_inputs
    program._note_step = note_steps(functools.partial(Sources.unpacked, entry.get("sources", {})))
    record.add(record.GraphRecord(entry["name"], entry["kind"]))
    observe.compiled(None, {**entry, "text": text}, program, entry["name"], entry["kind"], stages)
    return program


def ask_remote(text: str, options: dict[str, str], settings: Settings) -> None:
    if settings["remote_cache"] and not settings["force_compile"]:
        remote_cache.fetch(settings, f"graphs/{_C.graph_key(text, options).hex()}")


def give_remote(program: _C.Program, settings: Settings) -> None:
    if settings["remote_cache"] and program.loaded_from == "compiled" and program.cache_entries:
        remote_cache.store(settings, program.cache_entries[0], program.cache_entries)


def count(program: _C.Program, name: str) -> None:
    program.__name__ = name  # Dynamo asks for it in every call
    counters.add("graphs")
    if program.loaded_from == "disk":
        counters.add("graphs_from_disk")
    counters.add("kernels", program.num_kernels)
    counters.add("launches", program.num_launches)
    counters.add("externs", program.num_externs)
    counters.add("pycalls", program.num_pycalls)
    counters.add("compile_ms", program.compile_ms)
    log.info(
        "%s: %d kernels, %d calls outside, %s in %.1f ms",
        name, program.num_kernels, program.num_externs + program.num_pycalls, program.loaded_from, program.compile_ms,
    )  # fmt: skip


def sink(dump: Dump | None, stages: dict[str, str]) -> Callable[[str, str | bytes], None] | None:
    """Receiver of the compiler's stages; None without one, since a dump makes the compiler run."""
    wants_all = observe.wants_stages()
    if not dump and not record.is_active() and not wants_all:
        return None

    def write(file: str, data: str | bytes) -> None:
        if dump:
            dump.write_stage(file, data)
        if isinstance(data, str) and (wants_all or record.wants(file)):
            stages[file] = data

    return write
