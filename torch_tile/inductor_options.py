"""Inductor's option names: what becomes of each under backend="tile".

Each is one of three things: it sets a knob of ours; it is accepted with one line that says why it is not needed here;
or it is refused with the reason, where ignoring it would give the user something else than what was asked for. Options
without a row of their own are judged by class.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

from torch_tile.errors import OptionError


@dataclasses.dataclass(frozen=True)
class Fate:
    """What becomes of an option, or of a class of options."""

    name: str
    verdict: str
    """`sets`, `accepted` or `refused`."""
    text: str
    """For `sets` the knob; else the reason."""
    translate: Callable[[Any], dict[str, Any] | None] | None = None
    """Knobs and values for a value; None where the value is treated as `accepted`, or needs nothing."""
    harmless: tuple[Any, ...] = ()
    """Values of a refused option that ask for nothing."""
    items: tuple[str, ...] = ()
    """What a value may list, separated by commas; anything if empty."""


def _sets(name: str, knob: str, convert: Callable[[Any], Any] = lambda value: value, note: str = "") -> Fate:
    return Fate(name, "sets", f"`{knob}`{note}", lambda value: {knob: convert(value)})


def _sets_if(name: str, knob: str, note: str) -> Fate:
    """True turns the knob on; False leaves it as it is."""
    return Fate(name, "sets", f"`{knob}`{note}", lambda value: {knob: True} if value else {})


def _accepted(names: str, why: str) -> list[Fate]:
    return [Fate(name, "accepted", why) for name in names.split()]


def _refused(names: str, why: str, *harmless: Any) -> list[Fate]:
    return [Fate(name, "refused", why, harmless=harmless) for name in names.split()]


def _gemm_backends(value: Any) -> dict[str, Any] | None:
    return {"matmul_library": "aten"} if str(value).strip().upper() == "ATEN" else None


_BACKENDS = ("ATEN", "TRITON", "CUTLASS", "CUTEDSL", "NVGEMM", "CK", "CKTILE", "CPP")

_COST_MODEL = "schedules come from a cost model; `max_autotune` times them on a GPU, and libraries of products"
_PROFILER = "torch.profiler shows the time of each kernel"
_OWN_PASSES = "names passes of Inductor; ours have names of their own: options={'disable_passes': ...}"
_PLANNED = "memory is planned when a graph is compiled, and results do not depend on it"
_CHECKED = "sizes, strides and dtypes of inputs are checked in every call; the checks cost nanoseconds and stay"
_TREES = "recordings are torch's CUDA graph trees with their defaults; triton.cudagraphs turns them on or off"
_AHEAD = "is about packages ahead of time: torch_tile.aot and torch_tile.standalone_compile make ours"
_NO_REMOTE = "the option remote_cache names a remote cache of ours; Inductor's has no use here"

ROWS: dict[str, Fate] = {
    fate.name: fate
    for fate in (
        _sets("triton.cudagraphs", "cudagraphs"),
        _sets("fx_graph_cache", "cache"),
        Fate("force_disable_caches", "sets", "`cache` = False", lambda value: {"cache": False} if value else {}),
        _sets("compile_threads", "threads"),
        _sets_if("trace.enabled", "debug", ": every stage is written to torch's debug folder"),
        _sets_if("trace.graph_diagram", "debug", ": the folder of each graph holds its picture, 70-graph.svg"),
        Fate("max_autotune_gemm", "sets", "`max_autotune`", lambda value: {"max_autotune": bool(value)}),
        Fate(
            "max_autotune_gemm_backends",
            "sets",
            '`matmul_library` = "aten" for "ATEN"; other lists are accepted: libraries are chosen by matmul_library',
            _gemm_backends,
            items=_BACKENDS,
        ),
        *(
            Fate(f"max_autotune_conv_{which}backends", "accepted", "convolutions go to the library", items=_BACKENDS)
            for which in ("", "bwd_weight_", "bwd_input_")
        ),
        _sets("pre_grad_custom_pass", "pre_grad_pass"),
        _sets("joint_custom_pre_pass", "joint_pass"),
        _sets("joint_custom_post_pass", "joint_post_pass"),
        _sets("post_grad_custom_pre_pass", "post_grad_pass"),
        _sets("post_grad_custom_post_pass", "post_grad_post_pass"),
        _sets_if("max_autotune_pointwise", "autotune_schedules", ": on a GPU, schedules of kernels are timed"),
        _sets_if("coordinate_descent_tuning", "autotune_schedules", ": on a GPU, schedules of kernels are timed"),
        *_accepted("epilogue_fusion prologue_fusion", "fusion is decided by cost, and `fusion` turns all of it off"),
        *_accepted("comprehensive_padding", "kernels need no padded strides; shape_padding pads products"),
        *_accepted("cpp_wrapper", "a call runs in C++ from end to end; no wrapper is generated"),
        *_accepted("triton.unique_kernel_names", "kernels are named after their operators anyway"),
        *_accepted("size_asserts alignment_asserts", _CHECKED),
        *_accepted("scalar_asserts assert_indirect_indexing", "sizes and indices are always checked"),
        *_accepted("allow_buffer_reuse inplace_buffers memory_planning reorder_for_peak_memory", _PLANNED),
        *_accepted("conv_1x1_as_mm", "convolutions go to the library, which treats 1x1 as a product itself"),
        *_accepted("layout_optimization force_layout_optimization", "layouts of convolutions are chosen by their cost"),
        *_accepted("permute_fusion", "permuted operands are read in place, by the library's strides or by the kernel"),
        *_accepted("group_fusion batch_fusion", "operators side by side share kernels by cost"),
        *_accepted("split_reductions", "long reductions are split by sizes, the same way on every run"),
        *_accepted("use_fast_math", "approximations are used only within their documented bounds"),
        *_accepted("online_softmax", "softmax needs no option"),
        *_accepted("cpp.min_chunk_size cpp.dynamic_threads", "work is cut into programs by the target's cost model"),
        *_refused("cpp.threads", "kernels run on torch's threads: call torch.set_num_threads(n)", -1),
        *_refused("cpp.simdlen", "vectors are as wide as the processor's; the option target narrows them", None),
        *_refused("triton.cudagraph_trees", _TREES, True),
        *_refused("implicit_fallbacks", "operators without a kernel are calls outside, which explain lists", True),
        *_refused("batch_invariant", "products by a library may depend on the batch", False),
        *_refused("align_random_eager", "fallback_random gives eager's random numbers", False),
        *_refused("freezing_discard_parameters", "parameters stay with the module", False),
        *_refused("custom_partitioner_fn", "joint_pass may rewrite the joint graph; the partitioner stays", None),
        *_refused("_pre_fusion_custom_pass _post_fusion_custom_pass", "works on nodes of Inductor's scheduler", None),
        *_refused("inductor_choices_class", "is a part of Inductor's lowering", None),
        *_refused("fallback_by_default selective_decompose", "mode='lite' changes as little as possible", False),
        *_refused("disabled_passes", _OWN_PASSES, ""),
        *_refused("add_pre_grad_passes remove_pre_grad_passes", _OWN_PASSES, None),
        *_refused("pre_grad_fusion_options post_grad_fusion_options", _OWN_PASSES, {}),
        *_refused("profile_bandwidth benchmark_kernel", _PROFILER, False),
        *_refused("save_args generate_intermediate_hooks", "the option debug writes a script for each graph", False),
        *_refused("wrap_inductor_compiled_regions", "regions of Inductor's are not made here", False),
        *_refused("cpu_backend", "code generators of Inductor are not used here", "cpp"),
        *_refused("cuda_backend xpu_backend", "code generators of Inductor are not used here", "triton"),
        *_refused("trace.debug_dir", "torch._dynamo.config.debug_dir_root names the folder", None),
        *_refused("use_aoti", _AHEAD, False),
        *_refused("fx_graph_remote_cache autotune_remote_cache bundled_autotune_remote_cache", _NO_REMOTE, None, False),
    )
}  # fmt: skip

# By the beginning of a name, the first that fits. Defaults of Inductor are accepted in any case.
CLASSES: tuple[Fate, ...] = (
    *_refused("aot_inductor. aot_inductor_mode.", _AHEAD),
    *_refused("test_configs.", "is for tests of Inductor"),
    *_refused("triton.cudagraph cudagraph_ triton.fast_path_cudagraph triton.slow_path_cudagraph", _TREES),
    *_refused("triton.force_cudagraph triton.skip_cudagraph custom_should_partition_ops", _TREES),
    *_refused("eager_numerics.", "emulate_precision_casts rounds where eager does; nothing else is emulated"),
    *_refused("profile_ triton.proton", _PROFILER),
    *_refused("remote_", _NO_REMOTE),
    *_accepted("trace.", "with trace.enabled all stages are written"),
    *_accepted(
        "max_autotune autotune_ autoheuristic coordinate_descent inductor_default_autotune incremental_autotune "
        "search_autotune lookup_table. multi_kernel nvgemm triton.autotune", _COST_MODEL,
    ),
    *_accepted("cuda. cutlass. xpu. rocm. halide. mtia.", "steers a code generator of Inductor that is not used here"),
    *_accepted("triton.", "steers Triton code of Inductor; kernels of graphs are made without Triton"),
    *_accepted("cpp. cpp_", "steers C++ code of Inductor; kernels are made in the process through LLVM"),
    *_accepted("aten_distributed_optimizations. bucket_ reorder_for_compute_comm", "collectives keep their order here"),
    *_accepted("combo_kernel benchmark_combo", "independent work shares launches without an option"),
    *_refused("_", "is private to Inductor"),
)  # fmt: skip
_OTHERS = Fate("", "accepted", "steers passes and code generation of Inductor, which are not used here")


def _config() -> Any:
    """Inductor's own table, where torch is there at all; it costs nothing once Dynamo is imported."""
    if "torch" not in sys.modules:
        return None
    from torch._inductor import config

    return config


def names() -> list[str]:
    """Every option that Inductor of this torch knows, and those that we know beside them."""
    config = _config()
    theirs = config.get_config_copy() if config is not None else {}
    return sorted({name for name in theirs if name != "TYPE_CHECKING"} | set(ROWS))


def fate_of(name: str) -> Fate | None:
    """What becomes of an option; None if Inductor has none of this name."""
    if name in ROWS:
        return ROWS[name]
    if name not in names():
        return None
    if name.endswith("TESTING_ONLY"):
        return Fate(name, "refused", "is for tests of Inductor")
    for each in CLASSES:
        if name.startswith(each.name):
            return each
    return _OTHERS


def _check_type(name: str, value: Any) -> Any:
    """Inductor's default, after the check that Inductor makes, and that of unions and literals, which it leaves out."""
    config = _config()
    if config is None:
        return None
    try:
        expected = config.get_type(name)
    except (AttributeError, KeyError):  # an option of another torch
        return None
    if get_origin(expected) is Literal:
        is_right, text = value in get_args(expected), f"one of {', '.join(map(repr, get_args(expected)))}"
    else:
        text = expected.__name__ if isinstance(expected, type) else str(expected)
        try:
            is_right = isinstance(value, expected) or (expected is float and type(value) is int)
        except TypeError:  # of a container with elements
            is_right = True
    if not is_right:
        raise OptionError(f"option {name!r} expected {text}, as in Inductor, got {value!r}")
    return config.get_config_copy().get(name)


def _check_items(name: str, value: Any, items: tuple[str, ...]) -> None:
    unknown = [item for item in value.split(",") if item.strip().upper() not in items]
    if unknown:
        raise OptionError(
            f"option {name!r} expected names of {', '.join(items)}, separated by commas, got {unknown[0].strip()!r}"
        )


def translate(name: str, value: Any, say: Callable[[str], None]) -> Mapping[str, Any]:
    """Knobs of ours that an option of Inductor's sets.

    Args:
        name: one that `fate_of` knows.
        value: what the user gave.
        say: takes the line about an option that is accepted without effect.

    Raises:
        OptionError: the value is of the wrong type, or asks for something that is not done here.
    """
    fate = fate_of(name)
    assert fate is not None
    default = _check_type(name, value)
    if fate.items and isinstance(value, str):
        _check_items(name, value, fate.items)
    if fate.verdict == "sets" and fate.translate is not None:
        knobs = fate.translate(value)
        if knobs is not None:
            return knobs
    elif fate.verdict == "refused":
        harmless = fate.harmless if name in ROWS else (default,)
        if not any(value is each or (type(value) is type(each) and value == each) for each in harmless):
            raise OptionError(f"option {name!r} of Inductor is refused: {fate.text}")
        return {}
    reason = fate.text.rpartition("accepted: ")[2]
    say(f"option {name!r} of Inductor is accepted and has no effect: {reason}")
    return {}


def page() -> str:
    """docs/generated/inductor-options.md."""
    lines = [
        "# Options of Inductor",
        "",
        'What becomes of options of Inductor under `torch.compile(..., backend="tile", options={...})`:',
        "",
        "- *sets*: a knob of ours (config.md).",
        "- *accepted*: one line in the log says why it has no effect.",
        "- *refused*: `torch.compile` raises OptionError, unless the value is that of the last column.",
        "",
        "| option | | what becomes of it | accepted value |",
        "|---|---|---|---|",
    ]
    for name, fate in sorted(ROWS.items()):
        harmless = ", ".join(f"`{value!r}`" for value in fate.harmless)
        lines.append(f"| `{name}` | {fate.verdict} | {fate.text} | {harmless} |")
    lines += [
        "",
        "Names that are the same here are knobs of ours: `debug`, `deterministic`, `emulate_precision_casts`,",
        "`fallback_random`, `freezing`, `max_autotune`, `nan_asserts`.",
        "",
        "## By class",
        "",
        "All others, by the beginning of the name; the first row that fits. Inductor's default is always accepted.",
        "",
        "| begins with | | what becomes of it |",
        "|---|---|---|",
    ]
    lines += [f"| `{fate.name}` | {fate.verdict} | {fate.text} |" for fate in CLASSES]
    lines.append(f"| any other | {_OTHERS.verdict} | {_OTHERS.text} |")
    return "\n".join(lines)
