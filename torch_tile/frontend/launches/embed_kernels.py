"""Launches as kernels of the graph's own program, and which tensors they may write in place."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.frontend.common_subexpressions import storage_of
from torch_tile.frontend.launches.launch import Launch, NotNative, is_functional, is_unwritten
from torch_tile.frontend.launches.options import attributes_on_gpu
from torch_tile.frontend.launches.trace import trace

aten = torch.ops.aten


def own_copy(gm: GraphModule) -> GraphModule:
    """The module with a graph of its own, for rewriting: the one that was given can still run in eager mode."""
    copied = GraphModule(gm, copy.deepcopy(gm.graph))
    copied.meta.update(gm.meta)
    return copied


class GivenKernel:
    """Target of a node that launches a kernel given as text; see runtime/fx/ImportExtern.cpp.

    Its arguments are a list with what the kernel takes (tensors, numbers, "0" for the first result), the grid, and the
    positions of the tensors that it writes. `is_user_defined`: it may index memory by what it reads.
    """

    def __init__(self, name: str, tile_text: str, is_user_defined: bool = True) -> None:
        self.name = name
        self.is_user_defined = is_user_defined
        self.tile_text = tile_text
        self.__name__ = self.__qualname__ = name
        self.__module__ = __name__

    def __call__(self, *args: Any) -> Any:
        raise RuntimeError(f"kernel {self.name} runs in compiled graphs only")


class Storages:
    """Which nodes share memory, and where in the graph they stand."""

    def __init__(self, gm: GraphModule) -> None:
        self.position: dict[Node, int] = {}
        self.groups: dict[Node, list[Node]] = {}
        by_storage: dict[Any, list[Node]] = {}
        for index, node in enumerate(gm.graph.nodes):
            self.position[node] = index
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            storage = storage_of(value)
            group = by_storage.setdefault(storage, []) if storage is not None else []
            group.append(node)
            self.groups[node] = group

    def add(self, node: Node, like: Node, group: list[Node] | None = None) -> None:
        """A new node, at the place of another."""
        self.position[node] = self.position[like]
        self.groups[node] = group if group is not None else []
        self.groups[node].append(node)

    def merge(self, node: Node, into: Node) -> None:
        """What shares memory with `node` now shares that of `into`."""
        target = self.groups[into]
        for each in self.groups[node]:
            if self.groups[each] is not target:
                self.groups[each] = target
                target.append(each)

    def is_used_between(self, node: Node, begin: Node, end: Node | None) -> bool:
        first = self.position[begin]
        last = self.position[end] if end is not None else len(self.position) + 1
        return any(
            first < self.position[user] < last for each in self.groups[node] for user in each.users if user is not end
        )

    def is_private(self, node: Node) -> bool:
        return all(each.op == "call_function" for each in self.groups[node])


def _is_input(node: Node) -> bool:
    """Whether it is a graph input, as launches before may have left it."""
    while node.op == "call_function" and len(node.args) == 2 and isinstance(launch := node.args[0], Node):
        if not is_functional(launch):
            return False
        node = launch.kwargs["kwargs"][node.args[1]]  # type: ignore[index,assignment]
    return node.op == "placeholder"


class Rewriter:
    """Launches become kernels of the program, the last one first: what a later one needs is known then."""

    def __init__(self, gm: GraphModule, settings: Settings | None = None) -> None:
        self.gm = gm
        self.settings = settings
        self.storages = Storages(gm)
        self.kernels: dict[str, GivenKernel] = {}

    def trace(self, launch: Launch) -> tuple[str, list[Any], list[Any], list[str]]:
        """Text of the kernel, its arguments, the grid, and the names of the arguments."""
        assert self.settings is not None
        return trace(launch, self.settings)

    def attributes(self, launch: Launch, arguments: list[Any], is_distinct: bool) -> list[str]:
        """What the kernel's module says beside that."""
        if all(device.type == "cpu" for device in launch.devices):
            return []
        return attributes_on_gpu(arguments, is_distinct, launch.options)

    def rewrite(self, launch: Launch) -> None:
        text, arguments, grid, names = self.trace(launch)
        buffers: dict[str, Any] = {}
        results: list[str] = []
        clones: list[str] = []
        for name in launch.written:
            if is_unwritten(launch.arguments[name]):
                buffers[name] = str(len(results))
                results.append(name)
            elif (buffer := self._buffer_in_place(launch, name)) is not None:
                buffers[name] = buffer
            else:
                self._check_clone(launch, name)
                clones.append(name)
        node, graph = launch.node, self.gm.graph
        with graph.inserting_before(node):
            for name in clones:
                clone = graph.call_function(aten.clone.default, (launch.arguments[name],))
                clone.meta.update(node.meta)
                clone.meta["val"] = launch.results[name]
                self.storages.add(clone, node, [])
                buffers[name] = clone
            # Buffers of their own, but for inputs that other arguments may show.
            is_distinct = all(self._is_alone(launch, name, buffers[name]) for name in launch.written)
            attributes = self.attributes(launch, arguments, is_distinct) + ["tile.noalias_args"] * is_distinct
            kernel = self._kernel(launch.function_name, text, ", ".join(attributes))
            arguments = [buffers.get(name, value) for name, value in zip(names, arguments, strict=True)]
            written = [k for k, name in enumerate(names) if isinstance(buffers.get(name), Node)]
            call = graph.call_function(kernel, (arguments, grid, written))
            call.meta.update(node.meta)
            call.meta["val"] = tuple(launch.results[name] for name in results)
            self.storages.position[call] = self.storages.position[node]
            for name in launch.written:
                self._replace_result(launch, name, buffers[name], call)
        graph.erase_node(node)

    def _replace_result(self, launch: Launch, name: str, buffer: Any, call: Node) -> None:
        """Whoever used the new tensor of the functional op uses the buffer that the kernel wrote."""
        for result in launch.results_of(name):
            if isinstance(buffer, str):
                result.update_arg(0, call)
                result.update_arg(1, int(buffer))
                continue
            for user in list(result.users):
                if user.target is aten.copy_.default and user.args[0] is buffer:
                    assert isinstance(buffer, Node)
                    user.replace_all_uses_with(buffer)
                    self.gm.graph.erase_node(user)
            self.storages.merge(result, buffer)
            result.replace_all_uses_with(buffer)
            self.gm.graph.erase_node(result)

    def _shares(self, launch: Launch, name: str) -> bool:
        """Whether another argument of the launch shares its memory."""
        group = self.storages.groups[launch.arguments[name]]
        return any(
            isinstance(value, Node) and other != name and self.storages.groups.get(value) is group
            for other, value in launch.arguments.items()
        )

    def _is_alone(self, launch: Launch, name: str, buffer: Any) -> bool:
        return buffer is not launch.arguments[name] or not self._shares(launch, name)

    def _buffer_in_place(self, launch: Launch, name: str) -> Node | None:
        """The tensor itself, where writing it is unobservable."""
        old: Node = launch.arguments[name]
        storages = self.storages
        if old.op == "placeholder":
            # A graph input that is given the result afterwards. What else shows its memory is the user's own alias.
            copies = [
                user
                for result in launch.results_of(name)
                for user in result.users
                if user.target is aten.copy_.default and user.args[0] is old and user.args[1] is result
            ]
            others = [n for n in launch.written if n != name and launch.arguments[n] is old]
            if len(copies) == 1 and not others and not storages.is_used_between(old, launch.node, copies[0]):
                return old
            return None
        # Equal values are one node here, though they may be several tensors; what began as an input is the user's own.
        if not storages.is_private(old) or (self._shares(launch, name) and not _is_input(old)):
            return None
        return None if storages.is_used_between(old, launch.node, None) else old

    @staticmethod
    def _check_clone(launch: Launch, name: str) -> None:
        """`clone` keeps strides of dense tensors alone."""
        old, new = launch.arguments[name].meta["val"], launch.results[name]
        expected = torch.empty_like(old)
        if [str(s) for s in expected.stride()] != [str(s) for s in new.stride()]:
            raise NotNative(f"argument {name} is written and not dense")

    def _kernel(self, name: str, text: str, attributes: str) -> GivenKernel:
        key = f"{attributes}{text}"
        known = self.kernels.get(key)
        if known is None:
            unique = f"{name}_{len(self.kernels)}"
            assert text.startswith("module {"), text[:80]
            known = GivenKernel(unique, f"module @{unique} attributes {{{attributes}}} " + text[len("module ") :])
            self.kernels[key] = known
        return known
