"""What AOTAutograd made of a Dynamo graph, kept on disk: a warm start traces nothing and compiles nothing.

torch keeps such entries for Inductor (`torch._functorch._aot_autograd.autograd_cache`). The parts of it that know no
compiler serve here too: entries, their wrappers, their guards. Three things are ours:

- The key: torch's one imports Inductor's code generator, which costs more than all that a warm start saves, and it
  leaves out how operators are defined in Python (`autograd_key.py`, `definitions.py`).
- What stands for compiled code: graph text and options, looked up in our disk cache as in any other compile, so an
  entry never holds machine code and never outlives a change of the compiler.
- The place: `autograd/<key>/<sha256 of the content>` in our cache folder. The name is checked against the content.

All of this is private to torch, so it is used with the versions it was tried with alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pickle
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.aot_autograd_result import GenericAOTAutogradResult, GenericCompiledBackward
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._functorch._aot_autograd.graph_compile import aot_stage1_graph_capture, aot_stage2_compile
from torch._functorch._aot_autograd.schemas import AOTAutogradCacheInfo, ViewAndMutationMeta
from torch._functorch.aot_autograd import create_aot_state, prepare_aot_module_simplified

from torch_tile import _C
from torch_tile.config import Settings
from torch_tile.debug import record
from torch_tile.frontend.autograd_key import key_of
from torch_tile.frontend.tracing import untraced

log = logging.getLogger(__name__)

# A key has several entries where guards on sizes tell them apart.
_MOST_ENTRIES = 16

Reload = Callable[[str, Settings], Any]


def is_wanted(settings: Settings) -> bool:
    """Whether entries are looked up and kept; who looks at stages or kernels needs the graph itself."""
    return not (
        settings.cache_dir() is None
        or settings["debug"]
        or settings["force_compile"]
        or settings["cudagraphs"]
        or record.is_active()
        or torch.compiler.config.force_disable_caches
        or not functorch_config.enable_autograd_cache
    )


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


def _folder_of(mod: Any, inputs: Sequence[Any], aot_config: Any, settings: Settings) -> Path:
    """Where entries of this graph live."""
    cache_dir = settings.cache_dir()
    assert cache_dir is not None
    return Path(cache_dir) / "autograd" / key_of(mod, inputs, aot_config, settings)


def _read(file: Path) -> bytes | None:
    """The content, if it is a file of ours that is as it was written; removed where it is not."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022:
            log.warning("ignoring cache entry %s: it belongs to or may be written by another user", file)
            return None
        content = stream.read()
    # torch names an entry after its content.
    if _name_of(content) == file.name:
        return content
    log.info("removing damaged cache entry %s", file)
    with contextlib.suppress(OSError):
        file.unlink()
    return None


def _name_of(content: bytes) -> str:
    from torch._inductor.codecache import sha256_hash

    return str(sha256_hash(content))


def _entries(folder: Path) -> Iterator[GenericAOTAutogradResult[Any, Any]]:
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return
    for file in files[:_MOST_ENTRIES]:
        content = _read(file)
        if content is not None:
            with contextlib.suppress(OSError):
                os.utime(file)  # least recently used entries go first
            yield pickle.loads(content)  # checked above: ours and whole


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


def _load(folder: Path, inputs: list[Any], aot_config: Any, settings: Settings, reload: Reload) -> Any:
    from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw

    symbols = AOTAutogradCache._filter_backed_symints(inputs)
    hints = [guarding_hint_or_throw(symbol) for symbol in symbols]
    for entry in _entries(folder):
        if entry.guards_expr and not AOTAutogradCache.evaluate_guards(entry.guards_expr, hints):
            continue
        code = _Code(entry.compiled_fw.fx_graph_cache_info[0], settings, reload)
        entry.compiled_fw = code
        if entry.compiled_bw is not None:
            entry.compiled_bw = _BackwardCode(entry.compiled_bw, settings, reload)
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
    decompositions: Any,
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
            decompositions,
            True,
            False,
            flatten=False,
            force_non_lazy_backward_lowering=functorch_config.force_non_lazy_backward_lowering,
        )
        functional_call, parameters, _, _, fake_inputs, descriptors, aot_config = prepared[:7]
        fake_mode, shape_env = prepared[7:9]
        compiled = program = None
        try:
            folder = _folder_of(mod, fake_inputs, aot_config, settings)
            compiled, program = _load(folder, fake_inputs, aot_config, settings, reload)
        except Exception as error:  # a graph without a key, or an entry of which torch cannot make a function
            log.info("no AOTAutograd entry: %s", error)
            log.debug("no AOTAutograd entry", exc_info=True)
        else:
            if compiled is None and _prepare(folder):
                symbols = AOTAutogradCache._filter_backed_symints(fake_inputs)
                saved = AOTAutogradCacheInfo(str(folder), time.time_ns(), forward_symints=symbols)
                aot_config = dataclasses.replace(aot_config, cache_info=saved)
        if compiled is None:
            guards_before = len(_alias_guards())
            stack.enter_context(torch._dynamo.compiled_autograd._disable())
            state = create_aot_state(stack, functional_call, fake_inputs, descriptors, aot_config, fake_mode, shape_env)
            state.fw_metadata.act_input_indices = prepared[11]
            capture = aot_stage1_graph_capture(state, functional_call)
            if len(_alias_guards()) != guards_before:
                # Inputs were found not to overlap. Dynamo checks that in later calls, but an entry does not say so.
                state.aot_config = dataclasses.replace(state.aot_config, cache_info=None)
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


def _prepare(folder: Path) -> bool:
    """Whether torch may write an entry here: ours alone, and not full."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in (folder, folder.parent, folder.parent.parent):
            status = each.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return False
        return sum(1 for _ in folder.iterdir()) < _MOST_ENTRIES
    except OSError:
        return False
