"""Tensors whose memory ends, or begins, at a page that nobody may touch: an access beyond them ends the process."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import mmap
from typing import Literal

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_PAGE = mmap.PAGESIZE
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_PRIVATE_ANONYMOUS = 0x22


def guarded_copy(tensor: torch.Tensor, flush: Literal["start", "end"]) -> torch.Tensor:
    """A contiguous copy between two guard pages, touching the one at `flush`. Its memory is never given back."""
    size_bytes = max(tensor.numel() * tensor.element_size(), 1)
    pages = math.ceil(size_bytes / _PAGE)
    base = _libc.mmap(None, (pages + 2) * _PAGE, _PROT_NONE, _PRIVATE_ANONYMOUS, -1, 0)
    assert base not in (None, ctypes.c_void_p(-1).value), "mmap failed"
    assert _libc.mprotect(base + _PAGE, pages * _PAGE, _PROT_READ_WRITE) == 0
    start = base + _PAGE if flush == "start" else base + (1 + pages) * _PAGE - size_bytes
    memory = (ctypes.c_char * size_bytes).from_address(start)
    if tensor.numel() == 0:
        return torch.empty_like(tensor)
    result = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
    return result.copy_(tensor)
