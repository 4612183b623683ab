"""AOTAutograd wiring: decompositions, the joint graph's passes, the partitioner, one compile per graph."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import GmWrapper, flatten_graph_inputs
from torch._dynamo.utils import counters as dynamo_counters
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch.utils import _pytree as pytree

from torch_tile import config
from torch_tile.config import Settings
from torch_tile.counters import counters
from torch_tile.debug import faults, limits, minify, phases
from torch_tile.errors import OverlappingInputsError
from torch_tile.frontend import (
    affine_grids,
    circular_pads,
    containment,
    interpolations,
    number_reads,
    scalars_as_tensors,
    scan_results,
    tensor_indices,
    written_scalars,
)
from torch_tile.frontend.common_subexpressions import storage_of
from torch_tile.frontend.deterministic import called_deterministically, deterministic
from torch_tile.frontend.finite import asserts_finite
from torch_tile.frontend.inference_modes import traced_without_gradients
from torch_tile.frontend.python_random import as_they_come as random_numbers_as_they_come
from torch_tile.frontend.refused_calls import check_calls, check_inference_tensors, check_level
from torch_tile.frontend.reload import reload_graph
from torch_tile.frontend.replaced_calls import replaced
from torch_tile.frontend.storage_views import refuse_views_of_copies
from torch_tile.frontend.tracing import untraced
from torch_tile.frontend.user_passes import run_user_passes

log = logging.getLogger(__name__)
scalars_as_tensors.add_remainders()

aten = torch.ops.aten
_REFUSED_IF_DETERMINISTIC = frozenset((aten.max_unpool2d.default, aten.max_unpool3d.default, aten.put.default))
# Of torch, whose private parts `autograd_cache.py` was tried with.
CACHED_VERSIONS = ("2.13.",)


def compile_graph(*args: Any) -> Callable[..., Any]:
    """As in `frontend/compile.py`, which a warm start does not import; neither does it import passes."""
    from torch_tile.frontend import compile

    return compile.compile_graph(*args)


def _is_training(example_inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)


def _calls_foreach(gm: torch.fx.GraphModule) -> bool:
    graphs = (module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule))
    return any("_foreach_" in str(getattr(node.target, "__name__", "")) for graph in graphs for node in graph.nodes)


def _decompositions(settings: Settings, is_training: bool, has_foreach: bool) -> Any:
    # Passes too: nothing is imported while a graph is traced.
    from torch_tile.frontend import (  # noqa: F401
        channels_last,
        compile,
        epilogues,
        fx_passes,
        partition,
        pointwise_convolutions,
    )
    from torch_tile.frontend.decompositions import decomposition_table

    table = decomposition_table(is_training, has_foreach)
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        # On every device they are calls that eager mode refuses then, so they stay calls.
        table = {op: function for op, function in table.items() if op not in _REFUSED_IF_DETERMINISTIC}
    if not (left_out := settings.disabled_passes()):
        return table
    is_ours = {op: str(getattr(function, "__module__", "")).startswith("torch_tile") for op, function in table.items()}
    return {
        op: function
        for op, function in table.items()
        if str(op) not in left_out and not ("decompositions" in left_out and is_ours[op])
    }


def _compile_by_cache(settings: Settings) -> Callable[..., Any] | None:
    """`autograd_cache.compile_module`, where torch is a version whose private parts it was tried with."""
    if not torch.__version__.startswith(CACHED_VERSIONS):
        return None
    from torch_tile.frontend import autograd_cache

    return autograd_cache.compile_module if autograd_cache.is_wanted(settings) else None


def compile_with_autograd(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings
) -> Callable[..., Any]:
    """A callable for the graph and, where gradients are wanted, its backward."""

    def compile_flat(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        inputs = random_numbers_as_they_come(gm, inputs)
        settings.argument_names = containment.argument_names(gm)
        containment.check_arguments(inputs, settings.argument_names)
        check_calls(gm)
        check_inference_tensors(gm, inputs)
        refuse_views_of_copies(gm)
        check_level()
        choices = [interpolations.choose, affine_grids.choose]
        if limits.is_on(settings, "circular_pads"):
            choices.append(circular_pads.choose)
        calls = replaced(gm, choices, outside=[tensor_indices.choose])
        with (
            traced_without_gradients(gm),
            written_scalars.kept(gm),
            number_reads.allowed(),
            scan_results.copied(),
            calls,
        ):
            return _compile_with_attention(gm, inputs, settings)

    def compile_any() -> Callable[..., Any]:
        _run_pre_grad(gm, settings)
        if any(isinstance(x, (list, tuple, dict)) for x in example_inputs):
            flat: Callable[..., Any] = flatten_graph_inputs(gm, example_inputs, compile_flat)
            return flat
        return compile_flat(gm, example_inputs)

    if settings["cudagraphs"] and "cudagraphs" in settings.asked_for and not _uses_cuda(gm, example_inputs):
        config.say_once("option 'cudagraphs' has no effect on graphs whose kernels run on the CPU")
    if limits.is_beyond(settings):
        return containment.as_captured(gm)
    with deterministic(settings["deterministic"]):
        return minify.as_module(containment.contained(compile_any, gm, example_inputs, settings), gm)


def _uses_cuda(gm: Any, example_inputs: Sequence[Any]) -> bool:
    tensors = (x for x in pytree.tree_leaves(list(example_inputs)) if isinstance(x, torch.Tensor))
    if any(x.is_cuda for x in tensors) or not isinstance(gm, torch.fx.GraphModule):
        return True
    held = itertools.chain(gm.parameters(), gm.buffers())
    return any(x.is_cuda for x in held) or any(
        "cuda" in f"{node.target} {node.args} {node.kwargs}" for node in gm.graph.nodes
    )


def _run_pre_grad(gm: Any, settings: Settings) -> None:
    if not settings.passes("pre_grad_pass") or not isinstance(gm, torch.fx.GraphModule):
        return
    before = copy.deepcopy(gm.graph)
    try:
        run_user_passes("pre_grad_pass", gm, settings)
    except Exception:
        gm.graph = before  # what runs in eager mode instead
        raise


def _compile_with_attention(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings
) -> Callable[..., Any]:
    from torch_tile.frontend.attention import keep_attention

    # A graph that takes lists (compiled autograd's) comes within a module that makes them.
    is_wanted = isinstance(gm, torch.fx.GraphModule) and limits.is_on(settings, "attention")
    restore = keep_attention(gm) if is_wanted else None
    if restore is None:
        return _compile(gm, example_inputs, settings)
    try:
        return _compile(gm, example_inputs, settings)
    except Exception as error:
        restore()
        if containment.is_control_flow(error):
            raise
        # What traces under torch's own choice must not fail for ours.
        log.warning("attention is not kept whole: %s", error)
        return _compile(gm, example_inputs, settings)


def finished(
    compiled: Callable[..., Any], kind: str, settings: Settings, name: str | None = None
) -> Callable[..., Any]:
    """A graph that was compiled or loaded, with what options want of its calls."""
    if settings["nan_asserts"]:
        compiled = asserts_finite(compiled, kind, name)
    return called_deterministically(compiled) if settings["deterministic"] else compiled


def reloaded(
    payload: str, settings: Settings, parameters: Sequence[torch.Tensor | None] | None = None
) -> Callable[..., Any]:
    """A graph again, from the `_fx_graph_cache_key` that it was given.

    Args:
        payload: text that `compile_graph` has written.
        settings: of the call that loads it.
        parameters: for each input the parameter behind it, if the graph was frozen; None if only a call will tell.
    """
    graph = json.loads(payload)
    if "frozen" not in graph:
        return finished(reload_graph(payload, settings), graph["kind"], settings, graph["name"])
    from torch_tile.frontend.freezing import load_frozen, reload_frozen

    frozen = load_frozen(graph, settings) if parameters is None else reload_frozen(graph, settings, parameters)
    return finished(frozen, graph["kind"], settings, graph["name"])


def _donate_nothing() -> None:
    """Saved tensors are never written by a backward graph of ours, so `retain_graph` is no error of a compiled one.

    Emptied in place: the metadata of tensor subclasses and of what they hold share one list.
    """
    context = torch._guards.TracingContext.try_get()
    if context is not None and (donated := getattr(context.fw_metadata, "bw_donated_idxs", None)):
        donated.clear()


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> Callable[..., Any]:
    is_training = _is_training(example_inputs)
    parameters: list[torch.Tensor | None] = []
    if settings["freezing"]:
        from torch_tile.frontend.freezing import parameters_of

        parameters = parameters_of(gm, settings.real_inputs or example_inputs)
    if settings["freezing"] and is_training:
        log.info("parameters are not frozen: gradients are enabled, and an input asks for one (torch.no_grad())")

    def compile_one(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], kind: str) -> Any:
        run_user_passes("post_grad_post_pass", gm, settings, kind == "inference")
        with deterministic(settings["deterministic"]):
            compiled = minify.checked(
                lambda graph, inputs: compile_graph(graph, inputs, kind, settings), gm, example_inputs
            )
        return finished(compiled, kind, settings)

    def forward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        _donate_nothing()
        run_user_passes("post_grad_pass", gm, settings)
        return compile_one(gm, example_inputs, "forward")

    def backward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        # Backward graphs are compiled on an autograd thread; Dynamo must trace neither the compile nor its result.
        run_user_passes("post_grad_pass", gm, settings)
        compiled = untraced(compile_one, "do not trace the compiler")(gm, example_inputs, "backward")
        return untraced(compiled, "do not trace compiled code")

    def run_joint(gm: torch.fx.GraphModule, counter: str, is_inference: bool) -> None:
        from torch_tile.frontend.fx_passes import run_passes

        with phases.timed("torch_tile.passes", counter):
            run_user_passes("joint_pass", gm, settings, is_inference)
            run_passes(gm, settings)
        faults.point("run_passes")
        run_user_passes("joint_post_pass", gm, settings, is_inference)

    def order_channels(gm: torch.fx.GraphModule, device_type: str | None = None) -> None:
        if settings["matmul_library"] == "aten":  # which asks for eager's bits: cuDNN sums in another order
            if device_type == "cuda":
                return
            device_type = "cpu"
        if settings["fusion"] and limits.is_on(settings, "channels_last"):
            from torch_tile.frontend.channels_last import put_channels_last
            from torch_tile.frontend.constant_folding import Constants, Report, outside_of_tracing
            from torch_tile.frontend.pointwise_convolutions import are_products

            is_inference = device_type != "cuda"
            with outside_of_tracing():
                put_channels_last(Constants(gm), Report(), device_type, is_inference and are_products(settings))
        faults.point("channels_last")

    def replace_convolutions(gm: torch.fx.GraphModule) -> None:
        from torch_tile.frontend.pointwise_convolutions import are_products, replace_pointwise_convolutions

        if are_products(settings):
            replace_pointwise_convolutions(gm)
        faults.point("pointwise_convolutions")

    def inference(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        run_joint(gm, "post_grad_pass_time_us", is_inference=True)
        run_user_passes("post_grad_pass", gm, settings, True)
        if settings["freezing"]:
            from torch_tile.frontend.freezing import compile_frozen

            run_user_passes("post_grad_post_pass", gm, settings, True)
            return finished(compile_frozen(gm, example_inputs, parameters, settings), "inference", settings)
        order_channels(gm)
        if limits.is_on(settings, "epilogues"):
            from torch_tile.frontend.epilogues import fuse_epilogues

            fuse_epilogues(gm, settings)
        faults.point("epilogues")
        replace_convolutions(gm)  # those without an epilogue
        return compile_one(gm, example_inputs, "inference")

    def partition_joint(joint: torch.fx.GraphModule, joint_inputs: Sequence[Any], **kwargs: Any) -> Any:
        run_joint(joint, "joint_graph_pass_time_us", is_inference=False)
        order_channels(joint, "cuda")
        from torch_tile.frontend.partition import partition

        with phases.timed("torch_tile.partition"):
            parts = partition(joint, joint_inputs, limits.is_on(settings, "common_subexpressions"), **kwargs)
        faults.point("partition")
        return parts

    def reload(payload: str, settings: Settings) -> Any:
        return reloaded(payload, settings, parameters)

    compilers: dict[str, Any] = {
        "fw_compiler": forward,
        "bw_compiler": backward,
        "inference_compiler": inference,
        "partition_fn": partition_joint,
    }

    def decompositions() -> Any:
        return _decompositions(settings, is_training, _calls_foreach(gm))

    faults.point("decompositions")
    dynamo_counters["aot_autograd"]["total"] += 1
    try:
        cached = _compile_by_cache(settings)
        # Tokens that order effects are made within the graph; they are no inputs and outputs of ours.
        patches = {"unlift_effect_tokens": True}
        if minify.are_run_at_once():
            patches["force_non_lazy_backward_lowering"] = True
        if _by_storage(example_inputs):
            # Results that view arguments over one storage: to replay their views on the storage may end the process.
            patches["view_replay_for_aliased_outputs"] = False
        with functorch_config.patch(patches):
            if cached is not None:
                compiled: Callable[..., Any] = cached(
                    gm, example_inputs, settings, reload, decompositions=decompositions, **compilers
                )
            else:
                compilers["decompositions"] = decompositions()
                compiled = aot_module_simplified(gm, example_inputs, keep_inference_input_mutations=True, **compilers)
                # torch copies the mark from the program, and takes its inputs one by one all the same.
                compiled._boxed_call = isinstance(gm, GmWrapper)  # type: ignore[attr-defined]
        faults.point("autograd")
    except Exception:
        dynamo_counters["aot_autograd"]["not_ok"] += 1
        raise
    dynamo_counters["aot_autograd"]["ok"] += 1
    return _eager_where_inputs_overlap(compiled, gm, example_inputs) if settings.writes_inputs else compiled


def _by_storage(inputs: Sequence[Any]) -> list[list[int]]:
    """The numbers of the inputs that share memory, for each storage that several have."""
    groups: dict[Any, list[int]] = {}
    for number, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and (storage := storage_of(value)) is not None:
            groups.setdefault(storage, []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _overlapping(inputs: Sequence[Any]) -> dict[int, tuple[int, int | None]]:
    """For each input that may overlap another one, by number, the first that it shares memory with, and where it
    begins in that memory if this is known."""
    found: dict[int, tuple[int, int | None]] = {}
    for group in _by_storage(inputs):
        ranges = [(_range_in_storage(inputs[number]), number) for number in group]
        known = sorted((*own, number) for own, number in ranges if own is not None)
        if len(known) < len(ranges):
            found.update((number, (group[0], own[0] if own else None)) for own, number in ranges)
            continue
        furthest, reached_by = -1, -1
        for start, end, number in known:
            if start < min(end, furthest):
                for each in (number, reached_by):
                    found[each] = group[0], inputs[each].storage_offset() * inputs[each].element_size()
            if end > furthest:
                furthest, reached_by = end, number
    return found


def _range_in_storage(value: torch.Tensor) -> tuple[int, int] | None:
    """First byte and end, where sizes are known."""
    offset, last = value.storage_offset(), 0
    for size, stride in zip(value.shape, value.stride(), strict=True):
        last += (size - 1) * stride
    if not isinstance(offset, int) or not isinstance(last, int):
        return None
    bytes_each = value.element_size()
    return offset * bytes_each, (offset + last + 1) * bytes_each if 0 not in value.shape else 0


def _eager_where_inputs_overlap(
    compiled: Callable[..., Any], gm: torch.fx.GraphModule, inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Dynamo's guards do not see whether arguments overlap that did not when the graph was compiled, which the program
    sees itself; nor whether those do that did. AOTAutograd gives these as one input, and makes them anew of it."""

    eager = untraced(gm.forward, "the backend has refused this call")
    is_boxed = isinstance(gm, GmWrapper)  # of a graph with lists among its inputs: they come in one list
    overlapping = _overlapping(inputs)

    def are_elsewhere(given: Sequence[Any]) -> bool:
        for number, (first, start) in overlapping.items():
            value = given[number]
            if storage_of(value) != storage_of(given[first]):
                return True
            if start is not None and value.storage_offset() * value.element_size() != start:
                return True
        return False

    @functools.wraps(compiled)
    def call(*args: Any) -> Any:
        given = list(args[0]) if is_boxed else args
        try:
            if overlapping and are_elsewhere(given):
                raise OverlappingInputsError("run", "arguments overlap in another way than when it was compiled")
            return compiled(*args)
        except OverlappingInputsError as error:
            counters.add("fallbacks")
            log.warning("a call runs in eager mode: %s", error.text)
            return eager(*given)

    return call
