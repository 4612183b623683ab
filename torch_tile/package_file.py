"""Writes packages; csrc/artifact/Package.h says what they hold, and Package.cpp reads them.

header (64 bytes) | blobs, each at a multiple of 64 bytes, large ones of 4096 | index
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

import torch

MAGIC = b"TILEPACK"
VERSION = 3
HEADER_BYTES = 64
_ALIGN, _PAGE = 64, 4096
INT64_MAX = 2**63 - 1

# csrc/artifact/Artifact.h, ElementType.
_TYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
    "complex64",
    "complex128",
    "uint16",
    "uint32",
    "uint64",
    "complex32",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
]
ELEMENT_TYPES = {getattr(torch, name): number for number, name in enumerate(_TYPES) if hasattr(torch, name)}


@dataclasses.dataclass(frozen=True)
class Argument:
    """What an argument of a call must be; sizes are (least, greatest). Of an integer `dtype` is None."""

    name: str
    dtype: torch.dtype | None
    sizes: tuple[tuple[int, int], ...]
    needs_strides: bool = False
    """Those that it was exported with: the program reads its memory."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an input of a program comes from: an argument of the call or a constant, by number."""

    is_constant: bool
    index: int


@dataclasses.dataclass
class Variant:
    """A program for one kind of machine."""

    target: str
    features: Sequence[str]
    architecture: str
    program: int
    needs_torch: bool
    inputs: Sequence[Source]
    packable: Sequence[int]
    sources: int | None = None


class _Bytes:
    """Numbers of few bytes and texts, as csrc/artifact/ByteStream.h reads them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def unsigned(self, value: int) -> None:
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def signed(self, value: int) -> None:
        self.unsigned((value << 1 ^ value >> 63) & (1 << 64) - 1)

    def text(self, value: str) -> None:
        data = value.encode()
        self.unsigned(len(data))
        self.data += data


class Writer:
    """Puts blobs into a file as they come, and the index behind them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._blobs: list[tuple[int, int, int, bytes]] = []
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._names: list[str] = []
        self._file.write(bytes(HEADER_BYTES))

    def blob(self, data: bytes | memoryview, owner: str = "") -> int:
        """Number of a blob of these bytes; equal ones of one owner are one."""
        digest = hashlib.sha256(data).digest()
        if (owner, digest) in self._numbers:
            return self._numbers[owner, digest]
        align = _PAGE if len(data) >= 1 << 16 else _ALIGN
        self._file.write(bytes(-self._file.tell() % align))
        self._blobs.append((self._file.tell(), len(data), zlib.crc32(data), digest))
        self._file.write(data)
        self._numbers[owner, digest] = len(self._blobs) - 1
        return len(self._blobs) - 1

    def sources(self, lines: Mapping[int, tuple[str, str, bool]]) -> int:
        """Number of the blob that says for lines of a program's text the operator that the user called, the user's
        line, and whether eager mode raises RuntimeError for an index out of range."""
        out = _Bytes()
        texts = {text: None for operator, place, _ in lines.values() for text in (operator, place) if text}
        numbers = {"": 0, **{text: number for number, text in enumerate(texts, 1)}}
        out.unsigned(len(texts))
        for text in texts:
            out.text(text)
        out.unsigned(len(lines))
        for line, (operator, place, raises_runtime_error) in sorted(lines.items()):
            out.unsigned(line)
            out.unsigned(numbers[operator])
            out.unsigned(numbers[place])
            out.data.append(raises_runtime_error)
        return self.blob(bytes(out.data))

    def constant(self, name: str, tensor: torch.Tensor, is_written: bool) -> int:
        """Number of a constant; its memory is stored as it lies, with its strides.

        Constants that programs write have bytes of their own, for a program writes where the file is mapped; others
        with equal bytes, sizes and strides are one.
        """
        tensor = tensor.detach().cpu()
        extent = 0
        if tensor.numel() > 0:
            extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        span = tensor.as_strided((extent,), (1,)).view(torch.uint8)
        own = name if is_written else ""
        number = self.blob(memoryview(cast(Any, span.numpy())) if extent else b"", own)
        key = (own, number, ELEMENT_TYPES[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride()), is_written)
        if key not in self._constants:
            self._constants[key] = len(self._constants)
            self._names.append(name)
        return self._constants[key]

    def finish(self, producer: str, metadata: str, arguments: Sequence[Argument], variants: Sequence[Variant]) -> None:
        out = _Bytes()
        for text in (producer, torch.__version__, metadata):
            out.text(text)
        out.unsigned(len(self._blobs))
        for offset, size, crc, digest in self._blobs:
            out.unsigned(offset)
            out.unsigned(size)
            out.unsigned(crc)
            out.data += digest
        out.unsigned(len(arguments))
        for argument in arguments:
            out.data.append(argument.dtype is None)
            out.text(argument.name)
            out.data.append(0 if argument.dtype is None else ELEMENT_TYPES[argument.dtype])
            out.unsigned(len(argument.sizes))
            for least, greatest in argument.sizes:
                out.signed(least)
                out.signed(greatest)
        out.unsigned(len(self._constants))
        for (_, number, dtype, sizes, strides, is_written), name in zip(self._constants, self._names, strict=True):
            out.text(name)
            out.unsigned(number)
            out.data.append(dtype)
            out.unsigned(len(sizes))
            for value in (*sizes, *strides):
                out.signed(value)
            out.data.append(is_written)
        out.unsigned(len(variants))
        for variant in variants:
            out.text(variant.target)
            out.unsigned(len(variant.features))
            for feature in variant.features:
                out.text(feature)
            out.text(variant.architecture)
            out.unsigned(variant.program)
            out.data.append(variant.needs_torch)
            out.unsigned(len(variant.inputs))
            for source in variant.inputs:
                out.data.append(source.is_constant)
                out.unsigned(source.index)
            out.unsigned(len(variant.packable))
            for number in variant.packable:
                out.unsigned(number)
            out.data.append(variant.sources is not None)
            if variant.sources is not None:
                out.unsigned(variant.sources)
        laid_out = [number for number, argument in enumerate(arguments) if argument.needs_strides]
        out.unsigned(len(laid_out))
        for number in laid_out:
            out.unsigned(number)
        offset = self._file.tell()
        self._file.write(out.data)
        self._file.seek(0)
        self._file.write(header(offset, bytes(out.data)))


def header(offset: int, index: bytes, version: int = VERSION) -> bytes:
    """The first bytes of a package whose index lies at `offset`, at its end."""
    fields = struct.pack("<8sIIQQQ", MAGIC, version, zlib.crc32(index), offset + len(index), offset, len(index))
    return (fields + struct.pack("<I", zlib.crc32(fields))).ljust(HEADER_BYTES, b"\0")
