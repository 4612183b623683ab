"""Inputs that are Python objects, such as the device meshes of DTensors: a graph takes them only to hand them on.

A program takes tensors and numbers. So it gets a number in such an object's place, and all inputs and outputs keep
their positions, by which the metadata of AOTAutograd names them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import GraphModule

_IN_PLACE_OF_AN_OBJECT = 0


@contextlib.contextmanager
def objects_as_numbers(gm: GraphModule) -> Iterator[dict[int, list[int]]]:
    """Meanwhile objects that no operator reads are numbers. Yields the positions of their inputs, with those of the
    outputs that are the same object. An object that an operator reads stays, for the import to refuse."""
    (end,) = gm.graph.find_nodes(op="output")
    outputs = end.args[0] if isinstance(end.args[0], (tuple, list)) else ()
    objects, values = {}, {}
    for place, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, FakeScriptObject) and all(user is end for user in node.users):
            objects[place] = [position for position, output in enumerate(outputs) if output is node]
            values[node] = value
            node.meta["val"] = _IN_PLACE_OF_AN_OBJECT
    try:
        yield objects
    finally:
        for node, value in values.items():
            node.meta["val"] = value


def passing_objects_on(compiled: Callable[..., Any], objects: dict[int, list[int]]) -> Callable[..., Any]:
    """The program of such a graph, called with the objects. No cache keeps what is not the program."""

    def call(inputs: list[Any]) -> Any:
        passed_on = []
        for place, positions in objects.items():
            passed_on.append((inputs[place], positions))
            inputs[place] = _IN_PLACE_OF_AN_OBJECT
        outputs = list(compiled(inputs))
        for given, positions in passed_on:
            for position in positions:
                outputs[position] = given
        return outputs

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
