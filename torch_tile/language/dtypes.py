"""Types of the tile language: element types, pointers, tiles."""

from __future__ import annotations

import builtins
import enum
from typing import Any

import numpy as np
import torch

from torch_tile.errors import InvalidKernelError
from torch_tile.language.compile_time_values import constexpr, unwrap


class dtype:
    """An element type.

    The interpreter computes in `carrier`, a numpy type: float32 carries float16, bfloat16 and the float8 types, and is
    rounded to them after each operation. `memory` is the numpy type of one stored element.
    """

    class SIGNEDNESS(enum.Enum):
        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.Enum):
        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    __slots__ = (
        "_kind",
        "carrier",
        "fp_mantissa_width",
        "is_narrow_float",
        "is_signed",
        "memory",
        "mlir",
        "name",
        "primitive_bitwidth",
        "tiles",
        "torch",
        "weight",
    )

    def __init__(
        self,
        name: str,
        mlir: str = "",
        bits: int = 0,
        carrier: Any = None,
        memory: Any = None,
        torch_name: str = "",
        mantissa: int = 0,
    ) -> None:
        if not mlir:
            return
        self.name = name
        self.mlir = mlir
        self.primitive_bitwidth = bits
        self.carrier: Any = np.dtype(carrier) if carrier is not None else None
        self.memory: Any = np.dtype(memory) if memory is not None else None
        self.torch: torch.dtype | None = getattr(torch, torch_name, None)
        self.fp_mantissa_width = mantissa
        self.is_signed = name.startswith("int") and name != "int1"
        is_float = name.startswith(("fp", "bf"))
        self._kind = self.KIND.FLOATING if is_float else self.KIND.BOOLEAN if name == "int1" else self.KIND.INTEGRAL
        self.is_narrow_float = is_float and bits < 32
        self.weight = self._kind.value
        self.tiles: dict[Any, block_type] = {}  # see tile_type

    # Names of types by kind, as Triton lists them.
    SINT_TYPES = ("int8", "int16", "int32", "int64")
    UINT_TYPES = ("int1", "uint8", "uint16", "uint32", "uint64")
    FP_TYPES = ("fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64")
    STANDARD_FP_TYPES = ("fp16", "bf16", "fp32", "fp64")
    OTHER_TYPES = ("void",)

    def __new__(cls, name: str, *args: Any) -> dtype:
        # tl.dtype("fp32") is the type of that name.
        found = _NAMES.get(unwrap(name)) if not args else None
        if found is None and not args:
            raise InvalidKernelError("kernel", f"tl.dtype expected one of {', '.join(_NAMES)}, got {name!r}")
        return found or super().__new__(cls)

    # The value of a constexpr is asked for as `X.value`; a dtype passed as one answers too.
    @property
    def value(self) -> dtype:
        return self

    @property
    def scalar(self) -> dtype:
        return self

    @property
    def shape(self) -> list[int]:
        return []

    @property
    def itemsize(self) -> int:
        return max(1, self.primitive_bitwidth // 8)

    @property
    def nbytes(self) -> int:
        return self.itemsize

    @property
    def exponent_bias(self) -> int:
        return _EXPONENT_BIASES[self.name]

    @staticmethod
    def is_dtype(name: Any) -> bool:
        return unwrap(name) in _NAMES

    def is_const(self) -> bool:
        return False

    def codegen_name(self) -> str:
        return f"tl.{_CODEGEN_NAMES.get(self.name, self.name)}"

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth

    @property
    def int_signedness(self) -> SIGNEDNESS:
        return self.SIGNEDNESS.SIGNED if self.is_signed else self.SIGNEDNESS.UNSIGNED

    def kind(self) -> KIND:
        return self._kind

    def is_floating(self) -> bool:
        return self.weight == 2

    def is_standard_floating(self) -> bool:
        return self.name in ("fp16", "bf16", "fp32", "fp64")

    def is_int(self) -> bool:
        return self.weight < 2

    def is_int_signed(self) -> bool:
        return self.weight < 2 and self.is_signed

    def is_int_unsigned(self) -> bool:
        return self.weight < 2 and not self.is_signed

    def is_bool(self) -> bool:
        return self.name == "int1"

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_void(self) -> bool:
        return self.name == "void"

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def get_int_max_value(self) -> int:
        return (1 << (self.primitive_bitwidth - self.is_signed_number())) - 1

    def get_int_min_value(self) -> int:
        return -(1 << (self.primitive_bitwidth - 1)) if self.is_signed_number() else 0

    def is_signed_number(self) -> bool:
        return self.is_signed

    def with_element_ty(self, element_ty: Any) -> Any:
        return element_ty

    def __getattr__(self, name: str) -> Any:
        # is_fp32(), is_bf16(), is_int64(), is_uint8(), ...
        if name.startswith("is_"):
            wanted = name[3:]
            if wanted in _NAMES:
                result = self.name == wanted
                return lambda: result
        raise AttributeError(f"dtype {self.name} has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, constexpr) and self is other.value)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return dtype_of_name, (self.name,)


class pointer_type:
    """Type of pointers to elements of `element_ty`."""

    __slots__ = ("const", "element_ty", "mlir", "tiles")
    primitive_bitwidth = 64
    name = "pointer"
    weight = -1
    is_narrow_float = False
    carrier = np.dtype(np.int64)
    memory = np.dtype(np.int64)

    def __init__(self, element_ty: Any, address_space: Any = 1, const: bool = False) -> None:
        element_ty = unwrap(element_ty)
        if not isinstance(element_ty, (dtype, pointer_type)):
            raise InvalidKernelError("kernel", f"pointer_type expected an element type, got {element_ty!r}")
        self.element_ty = element_ty
        self.const = const
        self.mlir: str = f"!tile.ptr<{element_ty.mlir}>"
        self.tiles: dict[Any, block_type] = {}

    @property
    def value(self) -> pointer_type:
        return self

    @property
    def scalar(self) -> pointer_type:
        return self

    @property
    def shape(self) -> list[int]:
        return []

    @property
    def itemsize(self) -> int:
        return 8

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def with_element_ty(self, element_ty: Any) -> Any:
        return element_ty

    def is_block(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    is_floating = is_int_signed = is_int_unsigned = is_bool = is_fp8 = is_standard_floating = is_int

    def __getattr__(self, name: str) -> Any:
        if name.startswith("is_") and name[3:] in _NAMES:
            return lambda: False
        raise AttributeError(f"pointer type has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, pointer_type) and self.element_ty == other.element_ty

    def __hash__(self) -> int:
        return hash(("pointer", self.element_ty))

    def __str__(self) -> str:
        return f"pointer<{self.element_ty}>"

    __repr__ = __str__


class block_type:
    """Type of a tile: an element type and a shape."""

    __slots__ = ("element_ty", "mlir", "shape")

    def __init__(self, element_ty: Any, shape: Any) -> None:
        self.element_ty = element_ty
        self.shape = builtins.tuple(shape)
        self.mlir = f"tensor<{'x'.join(map(str, self.shape))}x{element_ty.mlir}>"

    @property
    def scalar(self) -> Any:
        return self.element_ty

    @property
    def numel(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.numel * int(self.element_ty.itemsize)

    def get_block_shapes(self) -> Any:
        return self.shape

    def with_element_ty(self, element_ty: Any) -> block_type:
        return block_type(element_ty, self.shape)

    def is_block(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("is_", "primitive_", "int_", "fp_", "kind", "get_int_")):
            return getattr(self.element_ty, name)
        raise AttributeError(f"block type has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, block_type) and self.element_ty == other.element_ty and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.element_ty, self.shape))

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"

    __repr__ = __str__


def tile_type(element: Any, shape: Any) -> Any:
    """The type of a value of this element type and shape; the element type itself for shape ()."""
    if not shape:
        return element
    # Element types keep their tiles: to look one up by both would hash the element type each time.
    found = element.tiles.get(shape)
    if found is None:
        found = element.tiles[shape] = block_type(element, shape)
    return found


int1 = dtype("int1", "i1", 1, np.bool_, np.uint8, "bool")
int8 = dtype("int8", "i8", 8, np.int8, np.int8, "int8")
int16 = dtype("int16", "i16", 16, np.int16, np.int16, "int16")
int32 = dtype("int32", "i32", 32, np.int32, np.int32, "int32")
int64 = dtype("int64", "i64", 64, np.int64, np.int64, "int64")
uint8 = dtype("uint8", "i8", 8, np.uint8, np.uint8, "uint8")
uint16 = dtype("uint16", "i16", 16, np.uint16, np.uint16, "uint16")
uint32 = dtype("uint32", "i32", 32, np.uint32, np.uint32, "uint32")
uint64 = dtype("uint64", "i64", 64, np.uint64, np.uint64, "uint64")
float8e5 = dtype("fp8e5", "f8E5M2", 8, np.float32, np.uint8, "float8_e5m2", 2)
float8e4nv = dtype("fp8e4nv", "f8E4M3FN", 8, np.float32, np.uint8, "float8_e4m3fn", 3)
float8e5b16 = dtype("fp8e5b16", "f8E5M2FNUZ", 8, np.float32, np.uint8, "float8_e5m2fnuz", 2)
float8e4b8 = dtype("fp8e4b8", "f8E4M3FNUZ", 8, np.float32, np.uint8, "float8_e4m3fnuz", 3)
float8e4b15 = dtype("fp8e4b15", "i8", 8, np.float32, np.uint8, "float8_e4m3b15", 3)
float16 = dtype("fp16", "f16", 16, np.float32, np.float16, "float16", 10)
bfloat16 = dtype("bf16", "bf16", 16, np.float32, np.uint16, "bfloat16", 7)
float32 = dtype("fp32", "f32", 32, np.float32, np.float32, "float32", 23)
float64 = dtype("fp64", "f64", 64, np.float64, np.float64, "float64", 52)
void = dtype("void", "none", 0, None, None, "")
pi32_t = pointer_type(int32)

ALL: builtins.tuple[dtype, ...] = (
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float8e5,
    float8e4nv,
    float8e5b16,
    float8e4b8,
    float8e4b15,
    float16,
    bfloat16,
    float32,
    float64,
)
_NAMES = {
    **{t.name: t for t in ALL},
    "fp8e4b15": float8e4b15,
    "void": void,
}
_EXPONENT_BIASES = {
    "fp8e5": 15,
    "fp8e4nv": 7,
    "fp8e5b16": 16,
    "fp8e4b8": 8,
    "fp8e4b15": 15,
    "fp16": 15,
    "bf16": 127,
    "fp32": 127,
    "fp64": 1023,
}
_CODEGEN_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"} | {
    f"fp8{end}": f"float8{end}" for end in ("e5", "e4nv", "e5b16", "e4b8", "e4b15")
}
# Names in which launches write types: "fp32", "i32", "*fp16".
_SHORT_NAMES = {
    f"{kind}{bits}": f"{long}{bits}" for kind, long in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}
_SHORT_NAMES |= {"i1": "int1", "u1": "int1"}
_OF_TORCH = {t.torch: t for t in ALL if t.torch is not None}


def dtype_of_name(name: str) -> dtype:
    return _NAMES[name]


def str_to_ty(name: Any, context: Any = None) -> Any:
    """The type of a name like "fp32", "i64" or "*fp16" (a pointer)."""
    name = unwrap(name)
    if name.startswith("*"):
        is_const = name.startswith("*k")
        return pointer_type(str_to_ty(name[2:] if is_const else name[1:]), const=is_const)
    if name == "constexpr":
        return constexpr
    return dtype(_SHORT_NAMES.get(name, name))


def type_of_annotation(name: str) -> dtype | None:
    """The type that the annotation of a parameter names, "tl.int64", "i64" or "fp16"; None if it names none."""
    by_name = {long: short for short, long in _CODEGEN_NAMES.items()}
    return _NAMES.get(_SHORT_NAMES.get(name, by_name.get(name, name))) if name else None


def dtype_of_torch(value: torch.dtype) -> dtype:
    found = _OF_TORCH.get(value)
    if found is None:
        known = ", ".join(str(t).removeprefix("torch.") for t in _OF_TORCH)
        raise InvalidKernelError("kernel", f"tensors of {value} are not supported in kernels; supported: {known}")
    return found


def dtype_of_number(value: Any) -> dtype:
    """The type of a Python number that stands alone: int32 for integers that fit, float32 for floats."""
    if isinstance(value, (bool, np.bool_)):
        return int1
    if isinstance(value, int):
        for candidate in (int32, uint32, int64, uint64):
            if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
                return candidate
        raise InvalidKernelError("kernel", f"the integer {value} does not fit into 64 bits")
    magnitude = abs(value)
    if magnitude == 0.0 or magnitude != magnitude or magnitude == float("inf"):
        return float32
    return float32 if 2.0**-126 <= magnitude <= (2 - 2**-23) * 2.0**127 else float64


def int_type(bits: int, signed: bool) -> dtype:
    return _NAMES["int1" if bits == 1 else f"{'' if signed else 'u'}int{bits}"]


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of this width."""
    return int_type(unwrap(bitwidth), unwrap(signed))
