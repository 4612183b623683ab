"""How structures of arguments and results are kept in a package.

torch writes a structure of tuples, lists, dicts and classes that were registered with a name. Named tuples (the user's,
and torch.return_types) are kept as tuples, beside their classes: what a package returns has the class again where the
program has imported it, or else one of the same name and fields.
"""

from __future__ import annotations

import collections
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def class_of(spec: Any) -> type | None:
    """The class of a named tuple; None of another node."""
    if isinstance(spec.type, type) and pytree.is_structseq_class(spec.type):
        return spec.type
    is_named = spec.type is collections.namedtuple or (
        isinstance(spec.type, type) and pytree.is_namedtuple_class(spec.type)
    )
    return spec.context if is_named and isinstance(spec.context, type) else spec.type if is_named else None


def argument_names(program: ExportedProgram) -> list[str]:
    """Names of the exported module's arguments, those by keyword last; empty if torch has not kept them."""
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    return list(getattr(signature, "forward_arg_names", None) or ())


def in_order(values: list[Any], given: Any, wanted: Any) -> list[Any] | None:
    """The leaves of the structure `given` in the order of the structure `wanted`. As in torch's exported module, those
    of a dict are taken by key, and a torch.Size is a tuple. None if the structures differ in anything else."""
    if given.is_leaf() or wanted.is_leaf():
        return values if given.is_leaf() and wanted.is_leaf() else None
    types = [tuple if spec.type is torch.Size else spec.type for spec in (given, wanted)]
    if types[0] is not types[1] or given.num_children != wanted.num_children:
        return None
    parts, start = list[tuple[list[Any], Any]](), 0
    for child in given.children():
        parts.append((values[start : start + child.num_leaves], child))
        start += child.num_leaves
    if wanted.type is dict:
        places = dict(zip(given.context, parts, strict=True))
        if not all(key in places for key in wanted.context):
            return None
        parts = [places[key] for key in wanted.context]
    elif given.context != wanted.context:
        return None
    ordered = list[Any]()
    for (part, child), expected in zip(parts, wanted.children(), strict=True):
        found = in_order(part, child, expected)
        if found is None:
            return None
        ordered += found
    return ordered


def with_tuples(spec: Any) -> Any:
    """The structure with a tuple for each named tuple."""
    return _replaced(spec, lambda node, _: (tuple, None) if class_of(node) else (node.type, node.context))


def dumped(spec: Any, what: str) -> dict[str, Any]:
    """What a package keeps of a structure: its text, None where it holds classes that torch cannot name; and the named
    tuples in it, by their numbers in depth-first order. Warns of classes without a name."""
    named = [
        [number, found.__module__, found.__qualname__, list(getattr(found, "_fields", ()))]
        for number, node in enumerate(_nodes(spec))
        if (found := class_of(node))
    ]
    try:
        return {"text": pytree.treespec_dumps(with_tuples(spec)), "named": named}
    except NotImplementedError as error:
        warnings.warn(
            f"the structure of the {what} is not kept, so they are a flat list of tensors: {error}; register the class "
            "with torch.utils._pytree.register_pytree_node and a serialized_type_name",
            stacklevel=6,
        )
        return {"text": None, "named": []}


def loaded(kept: Any) -> Any:
    """The structure, or None; `kept` is a text in packages of earlier versions."""
    if kept is None or isinstance(kept, str):
        return None if kept is None else pytree.treespec_loads(kept)
    if kept["text"] is None:
        return None
    classes = {number: _class(module, name, fields) for number, module, name, fields in kept["named"]}

    def kind_of(node: Any, number: int) -> tuple[Any, Any]:
        found = classes.get(number)
        if node.type is dict:
            return dict, [_key(key) for key in node.context]
        if found is None or found is tuple:
            return node.type, node.context
        return (found, None) if pytree.is_structseq_class(found) else (collections.namedtuple, found)

    return _replaced(pytree.treespec_loads(kept["text"]), kind_of)


def _nodes(spec: Any) -> Iterator[Any]:
    yield spec
    for child in spec.children():
        yield from _nodes(child)


def _replaced(spec: Any, kind_of: Callable[[Any, int], tuple[Any, Any]]) -> Any:
    numbers = iter(range(spec.num_nodes))

    def made(node: Any) -> Any:
        kind, context = kind_of(node, next(numbers))
        if node.is_leaf():
            return node
        return pytree.TreeSpec(kind, context, [made(child) for child in node.children()])

    return made(spec)


def _key(key: Any) -> Any:
    """The key of a dict; JSON has a list for a tuple."""
    return tuple(map(_key, key)) if isinstance(key, list) else key


def _class(module: str, name: str, fields: list[str]) -> type:
    found: Any = sys.modules.get(module)  # a package imports nothing
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and (pytree.is_structseq_class(found) or list(getattr(found, "_fields", ())) == fields):
        return found
    return tuple if not fields else collections.namedtuple(name.rpartition(".")[2], fields)
