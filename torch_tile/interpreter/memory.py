"""Memory as the interpreter sees it: the storages of the arguments, and addresses checked against them."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import torch

from torch_tile.errors import MemoryAccessError


class Region:
    """The storage of one tensor argument."""

    __slots__ = ("address", "bytes", "element_size", "end", "keep", "name", "start", "views")

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.name = name
        self.start = storage.data_ptr()
        size = storage.nbytes()
        self.end = self.start + size
        self.address = tensor.data_ptr()
        self.element_size = tensor.element_size()
        self.keep = tensor
        self.views: dict[Any, Any] = {}
        if size:
            buffer = (ctypes.c_uint8 * size).from_address(self.start)
            self.bytes: Any = np.frombuffer(memoryview(buffer), dtype=np.uint8)
        else:
            self.bytes = np.empty(0, np.uint8)

    def view(self, memory_type: Any) -> Any:
        """(address of the first element, shift from bytes to elements, elements) with the tensor's own alignment."""
        found = self.views.get(memory_type)
        if found is None:
            size = memory_type.itemsize
            skip = (self.address - self.start) % size
            count = max(0, (self.end - self.start - skip) // size)
            elements = self.bytes[skip : skip + count * size].view(memory_type)
            found = self.views[memory_type] = (self.start + skip, size.bit_length() - 1, elements)
        return found


class Memory:
    """All regions of a launch."""

    def __init__(self, regions: list[Region]) -> None:
        self.regions = sorted(regions, key=lambda r: (r.start, r.end))
        self.starts = np.array([r.start for r in self.regions], np.int64)
        self.log: Any = None  # an AccessLog, where races are looked for

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(
        self, address: Any, memory_type: Any, origin: Region | None, mask: Any, program: Any, what: str = "load"
    ) -> Any:
        """Elements at `address`; anything where the mask is false. `what` is the operation that errors name."""
        if origin is None:
            return self._read_unknown(address, memory_type, mask, program)
        start, shift, elements = origin.view(memory_type)
        index = (address - start) >> shift if shift else address - start
        index, is_aligned = self._check(index, address, start, shift, elements, origin, mask, program, what)
        if not is_aligned:
            return self._read_unknown(address, memory_type, mask, program)
        if self.log is not None:
            self.log.read(origin, address, memory_type.itemsize, mask, program)
        if elements.size == 0:
            return np.zeros(np.shape(index), memory_type)[()]
        return elements[index]

    def _check(
        self,
        index: Any,
        address: Any,
        start: int,
        shift: int,
        elements: Any,
        origin: Region,
        mask: Any,
        program: Any,
        what: str,
    ) -> tuple[Any, bool]:
        """Indices that are safe to use: out of range ones are an error where the mask is true, 0 elsewhere."""
        size = elements.size
        if isinstance(index, np.ndarray):
            unsigned = index.view(np.uint64) if index.dtype == np.int64 else index.astype(np.int64).view(np.uint64)
            if index.size == 0 or unsigned.max() < size:
                return index, True
            outside = unsigned >= size
            bad = outside if mask is None else outside & mask
            if bad.any():
                self._fail(
                    np.broadcast_to(address, bad.shape)[bad], bad, origin, program, what, mask is not None, 1 << shift
                )
            return np.where(outside, 0, index), True
        if not 0 <= index < size:
            if mask is None or bool(mask):
                self._fail(np.array([address]), np.ones((), bool), origin, program, what, mask is not None, 1 << shift)
            return np.int64(0), True
        return index, True

    def _fail(
        self, addresses: Any, bad: Any, origin: Region, program: Any, what: str, has_mask: bool, size: int
    ) -> None:
        verb = {"load": "reads", "store": "writes"}.get(what, "updates")
        index = int((int(addresses[0]) - origin.address) // size)
        first = int((origin.start - origin.address) // size)
        last = int((origin.end - origin.address) // size) - 1
        count = addresses.size
        lane = ""
        if bad.ndim:
            where = np.argwhere(bad)[0]
            lane = f", lane {', '.join(str(int(i)) for i in where)}"
        others = f" and {count - 1} more" if count > 1 else ""
        extent = f"elements {first} to {last}" if last >= first else "no elements"
        advice = "the mask lets it through" if has_mask else "add a mask, `mask=offsets < n`"
        if not bad.ndim:
            advice = "the mask lets it through" if has_mask else "check the index, or add a mask"
        raise MemoryAccessError(
            "kernel",
            f"tl.{what} {verb} `{origin.name}` at element {index}{others}, outside its storage ({extent}), in program "
            f"{program}{lane}; {advice}",
        )

    def _resolve(self, address: Any, size: int, mask: Any) -> list[tuple[Any, Region | None]]:
        """Groups of lanes by the region in which they lie."""
        flat = np.broadcast_to(address, np.shape(address) if mask is None else np.shape(np.broadcast(address, mask)))
        flat = flat.reshape(-1)
        active = np.ones(flat.shape, bool) if mask is None else np.broadcast_to(mask, np.shape(address)).reshape(-1)
        groups: list[tuple[Any, Region | None]] = []
        left = active.copy()
        for region in self.regions:
            inside = left & (flat >= region.start) & (flat + size <= region.end)
            if inside.any():
                groups.append((np.flatnonzero(inside), region))
                left &= ~inside
        if left.any():
            groups.append((np.flatnonzero(left), None))
        return groups

    def lanes_by_region(self, address: Any, size: int, mask: Any, origin: Region | None) -> list[tuple[Any, Region]]:
        """Groups of lanes by the argument's storage in which they lie: `origin`, where that is known."""
        if origin is not None:
            return [(slice(None), origin)]
        return [(lanes, region) for lanes, region in self._resolve(address, size, mask) if region is not None]

    def _read_unknown(self, address: Any, memory_type: Any, mask: Any, program: Any) -> Any:
        size = memory_type.itemsize
        flat = np.asarray(address).reshape(-1)
        data = np.zeros((flat.size, size), np.uint8)
        for lanes, region in self._resolve(address, size, mask):
            if region is not None:
                data[lanes] = region.bytes[(flat[lanes] - region.start)[:, None] + np.arange(size)]
                if self.log is not None:
                    self.log.read(region, flat[lanes], size, None, program)
                continue
            with _process_memory(os.O_RDONLY) as file:
                for lane in lanes:
                    data[lane] = np.frombuffer(file.read(int(flat[lane]), size, program), np.uint8)
        return data.view(memory_type).reshape(np.shape(address))[()]

    # --- writing ---------------------------------------------------------------------------------------------------

    def write(
        self,
        address: Any,
        raw: Any,
        memory_type: Any,
        origin: Region | None,
        mask: Any,
        program: Any,
        what: str = "store",
    ) -> None:
        if origin is None:
            self._write_unknown(address, raw, memory_type, mask, program)
            return
        start, shift, elements = origin.view(memory_type)
        index = (address - start) >> shift if shift else address - start
        index, _ = self._check(index, address, start, shift, elements, origin, mask, program, what)
        if self.log is not None:
            self.log.write(origin, address, raw, memory_type.itemsize, mask, program)
        if mask is None:
            elements[index] = raw
        elif not isinstance(index, np.ndarray):
            if mask:
                elements[index] = raw
        else:
            mask = np.broadcast_to(mask, index.shape)
            elements[index[mask]] = np.broadcast_to(raw, index.shape)[mask]

    def _write_unknown(self, address: Any, raw: Any, memory_type: Any, mask: Any, program: Any) -> None:
        size = memory_type.itemsize
        flat = np.asarray(address).reshape(-1)
        values = np.broadcast_to(np.asarray(raw, memory_type), np.shape(address)).reshape(-1)
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)
        for lanes, region in self._resolve(address, size, mask):
            if region is not None:
                if self.log is not None:
                    self.log.write(region, flat[lanes], values[lanes], size, None, program)
                for k in range(size):
                    region.bytes[flat[lanes] - region.start + k] = data[lanes, k]
                continue
            with _process_memory(os.O_RDWR) as file:
                for lane in lanes:
                    file.write(int(flat[lane]), data[lane].tobytes(), program)


class _process_memory:
    """Memory that no argument holds (from a table of pointers): reads of nothing are errors, not faults."""

    def __init__(self, mode: int) -> None:
        self.mode = mode

    def __enter__(self) -> _process_memory:
        self.file = os.open("/proc/self/mem", self.mode)
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def _fail(self, verb: str, address: int, program: Any) -> MemoryAccessError:
        return MemoryAccessError(
            "kernel", f"{verb} address {address:#x}, which belongs to no argument of the kernel, in program {program}"
        )

    def read(self, address: int, size: int, program: Any) -> bytes:
        try:
            data = os.pread(self.file, size, address)
        except (OSError, OverflowError):
            data = b""
        if len(data) != size:
            raise self._fail("tl.load reads", address, program)
        return data

    def write(self, address: int, data: bytes, program: Any) -> None:
        try:
            done = os.pwrite(self.file, data, address)
        except (OSError, OverflowError):
            done = 0
        if done != len(data):
            raise self._fail("tl.store writes", address, program)
