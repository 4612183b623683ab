"""From Triton's IR to a kernel: what Triton asks of a backend."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget

from torch_tile import config, file_contents

BINARY = "tilebin"


@dataclasses.dataclass(frozen=True)
class CpuOptions:
    """What Triton's front end reads, and what people pass for GPUs, which means nothing here."""

    num_warps: int = 1
    num_ctas: int = 1
    num_stages: int = 1
    warp_size: int = 1
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    extern_libs: Any = None
    debug: bool = False
    sanitize_overflow: bool = False
    arch: str = "cpu"
    backend_name: str = "cpu"
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None
    cluster_dims: tuple[int, int, int] = (1, 1, 1)

    def __post_init__(self) -> None:
        assert self.num_warps > 0 and self.num_warps & (self.num_warps - 1) == 0, "num_warps must be a power of 2"

    def hash(self) -> str:
        # Only what changes the code; the rest may differ between launches that share a kernel.
        text = f"{self.debug}-{self.sanitize_overflow}-{self.enable_fp_fusion}-{config.get('target')}"
        return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _compiler_version() -> str:
    """Changes whenever the compiler does, or what stands here between Triton and it."""
    from torch_tile import _C

    folder = Path(__file__).parent
    sources = [file_contents.of_sources(str(each)) for each in (folder, folder.parent / "formulas")]
    return f"{_C.version()['compiler']} {' '.join(sources)}"


def compiler_options(distinct_arguments: bool) -> dict[str, str]:
    """Options of the compiler library for one kernel."""
    return {"target": str(config.get("target")), "distinct_arguments": "true" if distinct_arguments else "false"}


def _optional_passes(manager: Any, *names: str) -> None:
    """Passes by their path under `passes`; those that this version of Triton lacks are left out."""
    for name in names:
        owner: Any = passes
        for part in name.split("."):
            owner = getattr(owner, part, None)
        if owner is not None:
            owner(manager)


class CpuBackend(BaseBackend):  # type: ignore[misc]
    """Compiles Triton kernels for the processor that this process runs on."""

    binary_ext = BINARY
    # Alignment does not help a CPU, and each kind of it would be compiled apart.
    supports_native_tensor_specialization = False

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "cpu")

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        return ""

    @staticmethod
    def get_int_specialization(arg: int, **kwargs: Any) -> str:
        return ""

    @staticmethod
    def get_arg_specialization(arg: Any, ty: str, **kwargs: Any) -> str:
        return ""

    def hash(self) -> str:
        return _compiler_version()

    def parse_options(self, options: dict[str, Any]) -> CpuOptions:
        known = {field.name for field in dataclasses.fields(CpuOptions)}
        result = CpuOptions(**{key: value for key, value in options.items() if key in known and value is not None})
        for key in options:
            # Triton asks whether a launch's keyword is known by looking here; kernel arguments come by as well.
            if key not in known:
                object.__setattr__(result, key, None)
        return result

    def pack_metadata(self, metadata: Any) -> Any:
        return metadata

    def get_codegen_implementation(self, options: CpuOptions) -> dict[str, Any]:
        from torch_tile.triton.float8 import convert_custom_types

        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1), "convert_custom_types": convert_custom_types}

    def get_module_map(self) -> dict[str, ModuleType]:
        from torch_tile.triton import libdevice

        return {"triton.language.extra.libdevice": libdevice, "triton.language.extra.cuda.libdevice": libdevice}

    def load_dialects(self, ctx: Any) -> None:
        pass

    def add_stages(self, stages: dict[str, Any], options: CpuOptions, language: Any = None) -> None:
        if language is not None and getattr(language, "name", "TRITON") != "TRITON":
            raise NotImplementedError("Gluon kernels are for GPUs")
        stages["ttir"] = lambda module, metadata: make_ttir(module)
        stages["tile"] = lambda module, metadata: _make_tile(module, metadata)
        stages[BINARY] = lambda text, metadata: _make_binary(text, metadata)


def make_ttir(module: Any) -> Any:
    """Triton's own passes that serve every target."""
    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    _optional_passes(
        manager,
        "common.add_inliner",
        "ttir.add_rewrite_tensor_pointer",
        "ttir.add_rewrite_tensor_descriptor_to_pointer",
        "common.add_canonicalizer",
        "ttir.add_combine",
        "ttir.add_reorder_broadcast",
        "common.add_cse",
        "common.add_symbol_dce",
        "ttir.add_loop_unroll",
        "common.add_canonicalizer",
    )
    try:
        manager.run(module, "make_ttir")
    except TypeError:  # before Triton 3.5 a pipeline had no name
        manager.run(module)
    return module


def generic_text(module: Any) -> str:
    """The module in MLIR's generic form, which needs no knowledge of Triton's dialects to be read.

    MLIR prints a module that does not verify in this form; an attribute without a dialect makes it so.
    """
    builder = ir.builder(module.context)
    module.set_attr("generic", builder.get_int32_attr(1))
    return str(module)


def _make_tile(module: Any, metadata: dict[str, Any]) -> str:
    from torch_tile import _C

    metadata["name"] = module.get_entry_func_name()
    metadata["shared"] = 1  # in bytes; unused here, but scripts divide by it
    metadata["tensordesc_meta"] = None
    return str(_C.import_triton(generic_text(module)))


def _make_binary(text: str, metadata: dict[str, Any]) -> bytes:
    from torch_tile import _C
    from torch_tile.triton import stages

    kernel = _C.compile_kernel(text, compiler_options(distinct_arguments=True), stages.dump_to(metadata["name"], text))
    source = text.encode()
    # The text lies with the code: where arguments overlap, another kernel is made from it.
    return b"%d\n" % len(source) + source + bytes(kernel)


def split_binary(data: bytes) -> tuple[str, bytes]:
    """Text of the tile dialect and compiled kernel."""
    size, rest = data.split(b"\n", 1)
    return rest[: int(size)].decode(), rest[int(size) :]
