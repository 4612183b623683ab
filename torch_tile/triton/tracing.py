"""A @triton.jit function and types of its arguments, to text of the tile dialect: no tensors, no launch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torch_tile import _C
from torch_tile.triton.compiler import CpuBackend, generic_text, make_ttir

# Triton's names of what pointers point to.
_POINTEES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8",
    torch.float8_e5m2fnuz: "fp8e5b16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint64: "u64",
    torch.uint32: "u32",
    torch.uint16: "u16",
    torch.uint8: "u8",
    torch.bool: "i1",
}


@functools.cache
def _backend() -> CpuBackend:
    return CpuBackend(GPUTarget("cpu", 0, 1))


# What Triton's backend for CUDA answers its front end where a kernel says nothing.
_DEFAULTS_ON_GPU = {"default_dot_input_precision": "tf32"}


def pointer_to(dtype: torch.dtype) -> str | None:
    """The type of a pointer argument; None if Triton has none for this dtype."""
    name = _POINTEES.get(dtype)
    return None if name is None else f"*{name}"


def integer_type(value: int) -> str | None:
    """The type that Triton gives a Python integer; None if it has none."""
    if -(1 << 31) <= value < 1 << 31:
        return "i32"
    if -(1 << 63) <= value < 1 << 63:
        return "i64"
    return None


@functools.cache
def boolean_type() -> str:
    """Triton's name of a boolean argument, which has changed."""
    from triton.runtime.jit import type_canonicalisation_dict

    return "u1" if "u1" in type_canonicalisation_dict.values() else "i1"


def is_debugged(function: Any, options: Mapping[str, Any]) -> bool:
    """Whether assertions of a kernel are looked at, as Triton decides it."""
    import triton

    wanted = options.get("debug", getattr(function, "debug", None))
    return bool(wanted or (getattr(getattr(triton, "knobs", None), "runtime", None) and triton.knobs.runtime.debug))


def trace(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
    on_gpu: bool = False,
) -> str:
    """
    Args:
        function: what @triton.jit made.
        signature: a type for every parameter, in order; "constexpr" for those in `constants`.
        constants: values of the parameters that are known now.
        options: keywords of the launch that are no parameters, such as num_warps.
        on_gpu: for a kernel of a graph on a GPU, which takes its pointers before its numbers.

    Returns:
        A module of one kernel, which may stand beside others in one text.

    Raises:
        triton.CompilationError: the kernel is wrong for these types.
        UnsupportedError: the kernel uses what is not supported.
    """
    backend = _backend()
    parsed = backend.parse_options({**(_DEFAULTS_ON_GPU if on_gpu else {}), **options})
    source = ASTSource(function, dict(signature), dict(constants))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        GPUTarget("cpu", 0, 1), parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context
    )
    return str(_C.import_triton(generic_text(make_ttir(module)), embeddable=True, pointers_first=on_gpu))
