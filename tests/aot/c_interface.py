"""The C interface of the runner within this process, by ctypes: tensors of any device, for torch allocates them."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

import torch_tile
from tests.aot.runner import _CODES


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("force_torch", ctypes.c_int32),
        ("reserved", ctypes.c_int32 * 3),
    ]


def _library() -> Any:
    library = ctypes.CDLL(str(Path(torch_tile.__file__).parent / "libtorch_tile_runtime.so"))
    library.tile_last_error.restype = ctypes.c_char_p
    library.tile_model_target.restype = ctypes.c_char_p
    library.tile_results_get.restype = ctypes.POINTER(Tensor)
    library.tile_results_count.restype = ctypes.c_size_t
    return library


class Model:
    """A package on a device.

    Raises:
        RuntimeError: what `tile_last_error` says.
    """

    def __init__(self, path: str, device: str = "cpu", force_torch: bool = False) -> None:
        self._library = _library()
        self._model = ctypes.c_void_p()
        place = torch.device(device)
        kind = 2 if place.type == "cuda" else 1
        options = Options(ctypes.sizeof(Options), kind, place.index or 0, 0, int(force_torch))
        self._check(self._library.tile_model_load(path.encode(), ctypes.byref(options), ctypes.byref(self._model)))

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"{status} {self._library.tile_last_error().decode()}")

    @property
    def target(self) -> str:
        return str(self._library.tile_model_target(self._model).decode())

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Results, copied to the CPU."""
        given = (Tensor * len(inputs))(*map(_view, inputs))
        results = ctypes.c_void_p()
        self._check(
            self._library.tile_model_run(self._model, given, ctypes.c_size_t(len(inputs)), ctypes.byref(results))
        )
        count = self._library.tile_results_count(results)
        found = [
            _read(self._library.tile_results_get(results, ctypes.c_size_t(number)).contents) for number in range(count)
        ]
        self._library.tile_results_free(results)
        return found

    def __del__(self) -> None:
        self._library.tile_model_free(self._model)


def _view(tensor: torch.Tensor) -> Tensor:
    numbers = ctypes.c_int64 * tensor.dim()
    code, bits = _CODES[tensor.dtype]
    kind = 2 if tensor.is_cuda else 1
    return Tensor(
        tensor.data_ptr(), kind, tensor.get_device() if tensor.is_cuda else 0, tensor.dim(), code, bits, 1,
        numbers(*tensor.shape), numbers(*tensor.stride()), 0,
    )  # fmt: skip


def _read(result: Tensor) -> torch.Tensor:
    sizes, strides = result.shape[: result.ndim], result.strides[: result.ndim]
    code = result.dtype_code, result.dtype_bits
    dtype = next(dtype for dtype, known in _CODES.items() if known == code)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    host = torch.empty(extent, dtype=dtype)
    size_bytes = extent * host.element_size()
    if result.device_type == 1:
        ctypes.memmove(host.data_ptr(), result.data + result.byte_offset, size_bytes)
    else:
        torch.cuda.synchronize()
        driver = ctypes.CDLL("libcuda.so.1")
        source = ctypes.c_uint64(result.data + result.byte_offset)
        status = driver.cuMemcpyDtoH_v2(ctypes.c_void_p(host.data_ptr()), source, ctypes.c_size_t(size_bytes))
        assert status == 0, f"cuMemcpyDtoH returned {status}"
    return host.as_strided(sizes, strides)
