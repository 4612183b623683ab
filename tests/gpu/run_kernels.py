"""The CPU's tests of the tile language on a CUDA device: each launch moves the storages of its tensors there, runs, and
moves them back, so that the tests compare what the device computed.

    python -m pytest -p tests.gpu.run_kernels tests/language/test_ops.py tests/language/test_control_flow.py -k compile

Left out: pointers inside tensors, which stay pointers to the CPU's memory, and the order in which the lanes of a tile
meet at one atomic, which is that of the lanes on the CPU alone.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_tile.language import compile as language
from torch_tile.language import jit, launch_arguments

launch: Any = language.launch


def _moved(value: Any, storages: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """The argument with its tensors on the device; tensors that share a storage still share one."""
    if isinstance(value, torch.Tensor) and value.device.type == "cpu":
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[call-overload]
            storages[storage.data_ptr()] = (whole, whole.cuda())
        device_bytes = storages[storage.data_ptr()][1]
        result = torch.empty(0, dtype=value.dtype, device="cuda")
        result.set_(device_bytes.untyped_storage(), value.storage_offset(), value.shape, value.stride())  # type: ignore[call-overload]
        return result
    if isinstance(value, launch_arguments.TensorWrapper):
        return launch_arguments.TensorWrapper(_moved(value.base, storages), value.dtype)
    if isinstance(value, (tuple, list)):
        items = [_moved(v, storages) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if hasattr(value, "block_shape") and isinstance(getattr(value, "base", None), torch.Tensor):
        import copy

        value = copy.copy(value)
        value.base = _moved(value.base, storages)
    return value


def launch_on_device(kernel: Any, grid: Any, args: Any, kwargs: Any) -> Any:
    storages: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    args = [_moved(v, storages) for v in args]
    kwargs = {k: _moved(v, storages) for k, v in kwargs.items()}
    result = launch(kernel, grid, tuple(args), kwargs)
    torch.cuda.synchronize()
    for whole, on_device in storages.values():
        whole.copy_(on_device)
    return result


jit._launcher.cache_clear()
language.launch = launch_on_device


_LEFT_OUT = {
    "test_table_of_pointers": "pointers to the CPU's memory",
    "test_colliding_atomics": "the order of lanes is the CPU's",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = _LEFT_OUT.get(getattr(item, "originalname", ""))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
