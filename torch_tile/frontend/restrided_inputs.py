"""Inputs whose elements and whose strides the graph changes (`x.add_(1); x.t_()`).

AOTAutograd gives such an input the sizes, strides and storage offset of the new value, and then copies the value into
it. The new value has to begin where the input does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import TracingContext


def restrided_inputs() -> list[tuple[int, int]]:
    """Of the graph that is compiled: positions of such results, and of their inputs."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if metadata is None:
        return []
    info = metadata.input_info
    written = enumerate(metadata.mutated_inp_runtime_indices)
    return [(place, i) for place, i in written if info[i].mutates_data and info[i].mutates_metadata]


def _move(results: list[Any], place: int, offset: int) -> None:
    """Gives all results in the memory of one of them other memory, in which that one begins at `offset`."""
    memory = results[place].untyped_storage()
    distance = offset - results[place].storage_offset()
    numel = memory.nbytes() // results[place].element_size()
    whole = results[place].as_strided((numel,), (1,), 0)
    moved = whole.new_empty(distance + numel)
    moved[distance:].copy_(whole)
    for k, result in enumerate(results):
        is_there = isinstance(result, torch.Tensor) and result.untyped_storage()._cdata == memory._cdata
        if is_there and result.dtype is whole.dtype:
            results[k] = moved.as_strided(result.shape, result.stride(), distance + result.storage_offset())


def beginning_where_inputs_do(
    call: Callable[[list[Any]], Any], places: list[tuple[int, int]]
) -> Callable[[list[Any]], Any]:
    """The boxed callable, with these results at the storage offsets of their inputs."""

    def moved(inputs: list[Any]) -> Any:
        offsets = [inputs[i].storage_offset() for _, i in places]
        results = list(call(inputs))
        for (place, _), offset in zip(places, offsets, strict=True):
            if results[place].storage_offset() < offset:
                _move(results, place, offset)
        return results

    moved._boxed_call = True  # type: ignore[attr-defined]
    return moved
