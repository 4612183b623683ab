"""Keys of `autograd_cache.py`: everything beside the graph that affects the result of AOTAutograd and the compile."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import (
    AOTAutogradCachePickler,
    BypassAOTAutogradCache,
    _collect_context_fn_hashes,
    _collect_saved_tensors_hooks_fx_wrap_cache_hashes,
    _get_custom_estimator_solver_uuids,
    check_cacheable,
    sanitize_gm_for_cache,
)
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, is_traceable_wrapper_subclass

from torch_tile import _C, file_contents
from torch_tile.config import Settings
from torch_tile.frontend import definitions
from torch_tile.frontend.common_subexpressions import storage_of
from torch_tile.frontend.fused_dtypes import fused_dtypes

_SOURCES = str(Path(__file__).parent.parent)
# Of the package: nothing there changes what is compiled.
_IRRELEVANT_FOLDERS = frozenset({"__pycache__", "debug", "interpreter"})


class _Details:
    """Everything beside the graph that decides what AOTAutograd and we make of it."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        aot_config: Any,
        settings: Settings,
        launches: Sequence[str],
    ) -> None:
        self.gm = gm
        self.inputs = inputs
        self.aliasing = _aliasing(inputs)
        # AOTAutograd detaches other inputs if the graph gives them no gradient.
        self.leaves = [isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf for value in inputs]
        self.aot_config = aot_config
        self.torch = torch.__version__, torch.version.git_version
        self.python = sys.version_info[:3]
        self.compiler = compiler_version()
        self.processor = [sorted(map(str, dtypes)) for dtypes in fused_dtypes(settings)]
        self.sources = _fingerprint()
        self.definitions = _definitions(gm, inputs)
        self.options = settings.key(_IRRELEVANT)
        self.grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        self.autocast = [
            (device, torch.get_autocast_dtype(device))
            for device in torch._C._autocast_supported_devices()
            if torch.is_autocast_enabled(device)
        ]
        self.deterministic = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        self.defaults = torch.get_default_dtype(), str(torch.get_default_device())
        self.backends = (
            torch.backends.cuda.matmul.fp32_precision,
            torch._C._get_cudnn_enabled(),
            torch._C._get_mkldnn_enabled(),
            torch._C._get_math_sdp_enabled(),
            torch._C._get_flash_sdp_enabled(),
            torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_cudnn_sdp_enabled(),
        )
        self.functorch = functorch_config.save_config()
        self.hooks = _collect_saved_tensors_hooks_fx_wrap_cache_hashes(gm)
        self.checkpointing = _collect_context_fn_hashes(gm)
        self.estimators = _get_custom_estimator_solver_uuids(functorch_config)
        self.memory_budgets = [
            node.meta["custom"] for node in gm.graph.nodes if isinstance(node.meta.get("custom"), dict)
        ]
        self.tag = torch.compiler.config.cache_key_tag
        self.marked = sorted(torch._inductor.config.unsafe_marked_cacheable_functions.items())
        self.wrapped = [str(node.meta.get("user_cache_hash")) for node in gm.graph.nodes]
        self.launches = launches


# Where and how much is cached, and how many threads compile, changes no result.
_IRRELEVANT = frozenset(
    {"cache_dir", "cache_layers", "cache_limit_bytes", "threads", "cache", "buffer_limit_bytes", "remote_cache"}
)


def _aliasing(inputs: Sequence[Any]) -> tuple[list[tuple[int, str]], list[Any]]:
    """For each input the first one with the same storage and where in it the input begins; for each storage of several
    inputs its size, and what AOTAutograd knows of the tensors that these are views of."""
    sharing: dict[Any, list[int]] = {}
    pattern = []
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and (storage := storage_of(value)) is not None:
            sharing.setdefault(storage, []).append(i)
            pattern.append((sharing[storage][0], str(value.storage_offset())))
        else:
            pattern.append((i, ""))
    shared = [(group, _bases([inputs[i] for i in group])) for group in sharing.values() if len(group) > 1]
    return pattern, shared


def _bases(tensors: Sequence[torch.Tensor]) -> Any:
    """Sizes as texts: comparing symbols would be a guard. A base is one of the tensors or stands beside them."""
    bases: list[Any] = []
    for tensor in tensors:
        base = tensor._base
        if base is not None and all(base is not known for known in bases):
            bases.append(base)
    numbers = [next((k for k, base in enumerate(bases) if tensor._base is base), None) for tensor in tensors]
    facts = [
        (
            str(base.dtype), str(tuple(base.shape)), str(base.stride()), str(base.storage_offset()), base.requires_grad,
            [tensor is base for tensor in tensors],
        )
        for base in bases
    ]  # fmt: skip
    return str(tensors[0].untyped_storage().nbytes()), numbers, facts


@functools.cache
def compiler_version() -> str:
    """Of the compiler library, with the processor that it compiles for."""
    return _C.version()["compiler"]


@functools.cache
def _fingerprint() -> tuple[str, str]:
    """Changes whenever a source of this package or the extension does, installed or edited in place."""
    return file_contents.of_sources(_SOURCES, _IRRELEVANT_FOLDERS), file_contents.of_file(_C.__file__)


def _classes_of(value: Any) -> Iterator[type]:
    """Classes of a tensor, and of those within it, through which torch traces."""
    if is_traceable_wrapper_subclass(value):
        yield type(value)
        for name in value.__tensor_flatten__()[0]:
            yield from _classes_of(getattr(value, name))


def _definitions(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """Everything in Python that decides what is traced.

    Raises:
        BypassAOTAutogradCache: something of it cannot be read.
    """
    modes = (*_get_current_dispatch_mode_stack(), *_get_current_function_mode_stack())  # type: ignore[no-untyped-call]
    for mode in modes:
        if not definitions.is_known(type(mode)):
            raise BypassAOTAutogradCache(f"is traced under {type(mode).__qualname__}")
    if overridden := definitions.overrides():
        raise BypassAOTAutogradCache(f"torch's operators have Python implementations: {', '.join(overridden[:3])}")
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    classes = dict.fromkeys(each for value in inputs for each in _classes_of(value))
    try:
        return definitions.describe(definitions.operators_of(graphs), classes)
    except definitions.UnreadableError as error:
        raise BypassAOTAutogradCache(str(error)) from None


def key_of(mod: Any, inputs: Sequence[Any], aot_config: Any, settings: Settings) -> str:
    """What entries of this graph share.

    Raises:
        BypassAOTAutogradCache: the graph holds something a key cannot tell apart.
    """
    if settings.key(_IRRELEVANT) is None:
        raise BypassAOTAutogradCache("a pass of the user's has no uuid()")
    gm = mod.gm if isinstance(mod, torch._dynamo.utils.GmWrapper) else mod
    with sanitize_gm_for_cache(gm):
        check_cacheable(gm)
        if any(isinstance(node.meta.get("example_value"), torch.SymFloat) for node in gm.graph.nodes):
            # AOTAutograd may make a constant of it, under a guard that entries do not have.
            raise BypassAOTAutogradCache("has a float whose value is an input")
        launches = [launch for node in gm.graph.nodes if (launch := _launch_of(node)) is not None]
        return str(AOTAutogradCachePickler(gm).get_hash(_Details(gm, inputs, aot_config, settings, launches)))


def _launch_of(node: torch.fx.Node) -> str | None:
    """What a node that launches a Triton kernel launches; a graph names it by an index alone."""
    if isinstance(node.target, torch._ops.OpOverload):
        if torch._library.triton.get_triton_kernels_for_op(str(node.target._schema.name)):
            raise BypassAOTAutogradCache(f"holds {node.target}, whose definition is Python")
        return None
    if not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    from torch_tile.frontend import triton_kernels

    if not triton_kernels.is_launch(node):
        raise BypassAOTAutogradCache(f"holds {node.target}")
    try:
        return triton_kernels.identify(node)
    except ValueError as reason:
        raise BypassAOTAutogradCache(f"launches {reason}") from None
