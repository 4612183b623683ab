"""AOTAutograd's results on disk, per Dynamo graph: a warm start traces nothing and compiles nothing.

torch keeps such entries for Inductor (`torch._functorch._aot_autograd.autograd_cache`). The parts of it that know no
compiler serve here too: entries, their wrappers, their guards. Three things are ours:

- The key: torch's one imports Inductor's code generator, which costs more than all that a warm start saves, and it
  leaves out how operators are defined in Python (`autograd_key.py`, `definitions.py`).
- What stands for compiled code: graph text and options, looked up in our disk cache as in any other compile, so an
  entry never holds machine code and never outlives a change of the compiler.
- The place: our disk cache. Where guards on sizes tell entries of one key apart, they have numbers.

All of this is private to torch, so it is used with the versions it was tried with alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pickle
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.aot_autograd_result import GenericAOTAutogradResult, GenericCompiledBackward
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._functorch._aot_autograd.graph_compile import aot_stage1_graph_capture, aot_stage2_compile
from torch._functorch._aot_autograd.schemas import AOTAutogradCacheInfo, ViewAndMutationMeta
from torch._functorch.aot_autograd import create_aot_state, prepare_aot_module_simplified

from torch_tile import _C, cache_artifacts, disk_cache, remote_cache
from torch_tile.config import Settings
from torch_tile.debug import faults, limits, minify, observe, phases, record
from torch_tile.frontend.autograd_key import key_of
from torch_tile.frontend.tracing import untraced

log = logging.getLogger(__name__)

# A key has several entries where guards on sizes tell them apart.
_MOST_ENTRIES = 16
_KIND = "autograd"

Reload = Callable[[str, Settings], Any]


def is_wanted(settings: Settings) -> bool:
    """Whether entries are looked up and kept; who looks at stages or kernels needs the graph itself."""
    if settings.artifact_key is not None:
        settings.reason_against_keeping = _reason_against(settings)
        return not settings.reason_against_keeping
    return not (
        disk_cache.open_cache(settings) is None
        or settings["debug"]
        or settings["force_compile"]
        or limits.are_set(settings)
        or minify.is_wanted()
        or faults.is_wrong()
        or record.is_active()
        or observe.needs_stages()
        or not functorch_config.enable_autograd_cache
    )


def _reason_against(settings: Settings) -> str:
    """Why a graph cannot be part of an artifact, as far as options say; empty if it can."""
    if disk_cache.open_cache(settings) is None:
        return "torch's switch force_disable_caches is on"
    return ""


class _Code:
    """Stands for one compiled graph in an entry; `load` makes it callable again."""

    def __init__(self, payload: str, settings: Settings, reload: Reload) -> None:
        self.payload = payload
        self.settings = settings
        self.reload = reload

    def load(self, example_inputs: Sequence[Any]) -> Any:
        self.loaded = self.reload(self.payload, self.settings)
        return self.loaded

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        return result


class _BackwardCode(_Code):
    def __init__(self, saved: GenericCompiledBackward[Any], settings: Settings, reload: Reload) -> None:
        super().__init__(saved.fx_graph_cache_info[0], settings, reload)  # type: ignore[attr-defined]
        self.backward_state_indices = saved.backward_state_indices
        self.num_symints_saved_for_bw_ = saved.num_symints_saved_for_bw_

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        return untraced(result, "do not trace compiled code")  # it runs on an autograd thread


def all_of(guards: str) -> str:
    """Guards as torch joins them by `and`, with parentheses around those with an `or`: torch leaves them out, so that
    `a and b or c` holds wherever c does."""
    depth, begin, parts = 0, 0, []
    for match in re.finditer(r"[()\[\]]| and ", guards):
        text = match.group()
        if text == " and ":
            if depth == 0:
                parts.append(guards[begin : match.start()])
                begin = match.end()
        else:
            depth += 1 if text in "([" else -1
    parts.append(guards[begin:])
    return " and ".join(f"({part})" if " or " in part else part for part in parts)


class _Place(str):
    """Where an entry is to be saved. torch carries it as the key of one of its own."""

    def __new__(cls, key: str, cache: _C.DiskCache, settings: Settings) -> _Place:
        self = super().__new__(cls, key)
        self.cache = cache
        self.settings = settings
        return self

    cache: _C.DiskCache
    settings: Settings

    def key(self, number: int) -> bytes:
        return disk_cache.key_of(_KIND, self, str(number))

    def entries(self) -> Iterator[tuple[str, bytes]]:
        """Guards and content of the entries that are there."""
        for number in range(_MOST_ENTRIES):
            remote_cache.fetch(self.settings, self.name(number))
            payload = self.cache.read(_KIND, self.key(number))
            if payload is None:
                return
            (length,) = struct.unpack_from("<I", payload)
            self.record(number)
            yield all_of(payload[4 : 4 + length].decode()), payload[4 + length :]

    def record(self, number: int) -> None:
        """For torch.compiler.save_cache_artifacts."""
        cache_artifacts.record(self.cache, [self.name(number)])

    def name(self, number: int) -> str:
        return f"{_KIND}/{self.key(number).hex()}"

    def save(self, entry: GenericAOTAutogradResult[Any, Any]) -> None:
        """Adds an entry, unless one with these guards is there: processes that start at once make the same."""
        entry.pre_save()
        content = AOTAutogradCache._pickle_entry(entry, False)
        if content is None:
            return
        guards = all_of(entry.guards_expr or "")
        known = [each for each, _ in self.entries()]
        if guards not in known and len(known) < _MOST_ENTRIES:
            encoded = guards.encode()
            self.cache.write(_KIND, self.key(len(known)), struct.pack("<I", len(encoded)) + encoded + content)
            self.record(len(known))
            remote_cache.store(self.settings, self.name(len(known)), [self.name(len(known))])


def _take_over_saving() -> None:
    """torch saves an entry once its last graph is compiled; those for a `_Place` go there."""
    torch_saves = AOTAutogradCache.save
    if getattr(torch_saves, "_knows_places", False):
        return

    def save(key: str, entry: GenericAOTAutogradResult[Any, Any], remote: bool) -> None:
        if not isinstance(key, _Place):
            torch_saves(key, entry, remote)
            return
        try:
            key.save(entry)
        except Exception as error:  # a graph that is compiled is worth more than its entry
            log.info("an AOTAutograd entry is not saved: %s", error)

    save._knows_places = True  # type: ignore[attr-defined]
    AOTAutogradCache.save = staticmethod(save)  # type: ignore[method-assign]


def _alias_guards() -> list[Any]:
    context = torch._guards.TracingContext.try_get()
    return context.guards_context.aotautograd_guards if context else []


def _needs_no_wrapper(metadata: ViewAndMutationMeta, subclasses: Any, wrappers: Sequence[Any]) -> bool:
    """Whether inputs go to the program and its outputs to the user as they are, so that nothing need stand between."""
    return (
        subclasses is None
        and not any(getattr(wrapper, "needs_post_compile", True) for wrapper in wrappers)
        and metadata.num_mutated_inp_runtime_indices == 0
        and metadata.num_mutated_graph_handled_indices == 0
        and metadata.num_outputs_aliased == 0
        and metadata.num_intermediate_bases == 0
        and metadata.num_graphsafe_rng_states == 0
        and metadata.grad_enabled_mutation is None
        and not (metadata.dynamic_outputs or metadata.tokens or metadata.act_input_indices)
        and not metadata.is_rng_op_functionalized
    )


def load_artifact(key: str, cache: _C.DiskCache, settings: Settings, reload: Reload) -> Callable[..., Any] | None:
    """The boxed callable of the one entry of an artifact; None where there is none that is sound."""
    for _, content in _Place(key, cache, settings).entries():
        entry = pickle.loads(content)
        entry.guards_expr = None  # who calls it knows what it was compiled for
        _stand_in(entry, settings, reload)
        wrapped: Callable[..., Any] = entry.wrap_post_compile([], entry.sanitized_aot_config, {})
        return wrapped
    return None


def _stand_in(entry: Any, settings: Settings, reload: Reload) -> _Code:
    """Puts our loaders where an entry has torch's; returns that of the forward."""
    code = _Code(entry.compiled_fw.fx_graph_cache_info[0], settings, reload)
    entry.compiled_fw = code
    if entry.compiled_bw is not None:
        entry.compiled_bw = _BackwardCode(entry.compiled_bw, settings, reload)
    return code


def _load(place: _Place, inputs: list[Any], aot_config: Any, settings: Settings, reload: Reload) -> Any:
    from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw

    symbols = AOTAutogradCache._filter_backed_symints(inputs)
    hints = [guarding_hint_or_throw(symbol) for symbol in symbols]
    for guards, content in place.entries():
        if guards and not AOTAutogradCache.evaluate_guards(guards, hints):
            continue
        entry = pickle.loads(content)  # ours and whole: the cache has seen to that
        entry.guards_expr = guards or None
        code = _stand_in(entry, settings, reload)
        wrapped = entry.wrap_post_compile(inputs, aot_config, {})
        is_plain = entry.compiled_bw is None and _needs_no_wrapper(
            entry.runtime_metadata, entry.maybe_subclass_meta, entry.dispatch_wrappers
        )
        return wrapped, code.loaded if is_plain else None
    return None, None


def compile_module(
    mod: Any,
    inputs: Sequence[Any],
    settings: Settings,
    reload: Reload,
    *,
    fw_compiler: Any,
    bw_compiler: Any,
    inference_compiler: Any,
    partition_fn: Any,
    decompositions: Callable[[], Any],
) -> Callable[..., Any]:
    """As `aot_module_simplified` with input mutations kept, by way of the disk.

    Args:
        mod: the graph as Dynamo captured it.
        inputs: what it was captured with.
        settings: of this torch.compile call.
        reload: makes a compiled graph of its `_fx_graph_cache_key`; a graph without one is not kept.
    """
    with contextlib.ExitStack() as stack:
        prepared = prepare_aot_module_simplified(
            mod,
            inputs,
            None,
            None,  # they are not needed for what is on disk
            True,
            False,
            flatten=False,
            force_non_lazy_backward_lowering=functorch_config.force_non_lazy_backward_lowering,
        )
        functional_call, parameters, _, _, fake_inputs, descriptors, aot_config = prepared[:7]
        fake_mode, shape_env = prepared[7:9]
        compiled = program = None
        try:
            cache = disk_cache.open_cache(settings)
            assert cache is not None  # is_wanted
            if settings.artifact_key is not None:
                place = _Place(settings.artifact_key, cache, settings)
            else:
                place = _Place(key_of(mod, fake_inputs, aot_config, settings), cache, settings)
                with phases.timed("torch_tile.autograd_cache"):
                    compiled, program = _load(place, fake_inputs, aot_config, settings, reload)
                outcome = "miss" if compiled is None else "hit"
                phases.cache_event("autograd", outcome, f"aotautograd_local_cache_{outcome}_count", key=str(place))
        except Exception as error:  # a graph without a key, or an entry of which torch cannot make a function
            log.info("no AOTAutograd entry: %s", error)
            log.debug("no AOTAutograd entry", exc_info=True)
        else:
            if compiled is None:
                _take_over_saving()
                symbols = AOTAutogradCache._filter_backed_symints(fake_inputs)
                saved = AOTAutogradCacheInfo(place, time.time_ns(), forward_symints=symbols)
                aot_config = dataclasses.replace(aot_config, cache_info=saved)
        if compiled is None:
            aot_config = dataclasses.replace(aot_config, decompositions=decompositions())
            guards_before = len(_alias_guards())
            stack.enter_context(torch._dynamo.compiled_autograd._disable())
            state = create_aot_state(stack, functional_call, fake_inputs, descriptors, aot_config, fake_mode, shape_env)
            state.fw_metadata.act_input_indices = prepared[11]
            capture = aot_stage1_graph_capture(state, functional_call)
            if len(_alias_guards()) != guards_before:
                # Inputs were found not to overlap. Dynamo checks that in later calls, but an entry does not say so.
                state.aot_config = dataclasses.replace(state.aot_config, cache_info=None)
                settings.reason_against_keeping = "it is compiled for inputs that do not overlap, which nothing checks"
            programs: list[Any] = []

            def compile_inference(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
                programs.append(inference_compiler(gm, example_inputs))
                return programs[-1]

            compiled, _ = aot_stage2_compile(state, capture, partition_fn, fw_compiler, bw_compiler, compile_inference)
            is_plain = not state.needs_autograd and _needs_no_wrapper(
                state.fw_metadata, capture.maybe_subclass_meta, capture.wrappers
            )
            if is_plain and len(programs) == 1:
                program = programs[0]
    if isinstance(program, _C.Program) and not parameters:
        return program
    if isinstance(mod, torch._dynamo.utils.GmWrapper):

        def call_with_list(arguments: list[Any]) -> Any:
            values = [*parameters, *arguments]
            arguments.clear()
            return compiled(values)

        return call_with_list

    def call(*arguments: Any) -> Any:
        return compiled([*parameters, *arguments])

    return call
