"""Definitions of operators made in Python: they decide how torch traces a graph, and are not part of it.

A graph names an operator. What AOTAutograd makes of it comes from functions that were registered for the name: fake
implementations, backward formulas, compositions of other operators. `describe` digests them with everything that they
reach: code, defaults, closures, globals, classes, and other operators. Where a definition cannot be read there is no
digest, so nothing of the graph is kept on disk.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import logging
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._library import custom_ops, simple_registry

from torch_tile import file_contents
from torch_tile.code_names import MISSING, cell_content, is_present, names_read

# Above this a definition reaches too much to be digested in each compile.
_MOST_OBJECTS = 2000
_MOST_BYTES = 1 << 20
# Kernels for these run when the graph runs and tell nothing about how it is traced.
_BACKENDS = frozenset({
    "CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA", "PrivateUse1",
    "PrivateUse2", "PrivateUse3", "MkldnnCPU", "QuantizedCPU", "QuantizedCUDA", "SparseCPU", "SparseCUDA",
    "SparseCsrCPU", "SparseCsrCUDA", "NestedTensorCPU", "NestedTensorCUDA",
})  # fmt: skip
_TORCH_NAMESPACES = ("aten", "prims", "prim", "torch_tile", "c10d", "_c10d_functional", "c10d_functional")
# CustomOpDef registers functions of its own for these; what they call stands in its fields.
_KEYS_OF_CUSTOM_OPS = frozenset({
    "Meta", "Autograd", "ADInplaceOrView", "FuncTorchBatched", "BackendSelect", "CompositeExplicitAutograd",
    "Autocast", "AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS",
})  # fmt: skip
# Known by their versions, which are part of every key.
_KNOWN_MODULES = frozenset({"torch", "torch_tile", "builtins", "triton", *sys.stdlib_module_names})
_ATOMS = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout)

# Members of classes that follow from others, or change nothing.
_UNTOLD_MEMBERS = frozenset({
    "__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__qualname__", "__annotations__",
    "__annotate_func__", "_abc_impl", "__abstractmethods__", "__orig_bases__", "__parameters__",
    "__dataclass_fields__", "__dataclass_params__",
})  # fmt: skip


class UnreadableError(Exception):
    """A definition that cannot be read."""


def _root(module: Any) -> str:
    return str(module).split(".", 1)[0]


def is_known(value: Any) -> bool:
    """Whether torch, Python or this package defines it."""
    return _root(getattr(value, "__module__", None)) in _KNOWN_MODULES


def operators_of(graphs: Iterable[torch.fx.Graph]) -> list[torch._ops.OpOverload]:
    """Operators that nodes of a graph call and torch does not define."""
    found: dict[str, torch._ops.OpOverload] = {}
    for graph in graphs:
        for node in graph.nodes:
            for op in _overloads(node.target):
                found[str(op)] = op
    return list(found.values())


def _overloads(target: Any) -> list[torch._ops.OpOverload]:
    if isinstance(target, torch._ops.OpOverload):
        return [] if _is_torch_namespace(target.namespace) else [target]
    if isinstance(target, torch._ops.OpOverloadPacket):
        if _is_torch_namespace(target._qualified_op_name.split("::")[0]):
            return []
        return [getattr(target, name) for name in target.overloads()]  # type: ignore[no-untyped-call]
    return []


def _is_torch_namespace(namespace: str) -> bool:
    """Whether torch defines operators there, or this package. Others may add to it, so `overrides` looks as well."""
    return namespace in _TORCH_NAMESPACES


# Of `torch.library._impls`, whose names are `namespace/operator/key`: those that cannot change what is traced.
_irrelevant_impls: set[str] = set()


def _relevant_impls() -> list[str]:
    """Without those found before: torch registers more than a thousand, and every graph asks."""
    relevant = []
    for name in torch.library._impls - _irrelevant_impls:
        namespace, _, key = name.split("/")
        if namespace != "aten" or key == "Meta" or key in _BACKENDS:
            _irrelevant_impls.add(name)
        else:
            relevant.append(name)
    return relevant


def overrides() -> list[str]:
    """Kernels, as `namespace/operator/key`, that somebody registered in Python for torch's own operators."""
    own = os.path.dirname(torch.__file__)
    found = []
    for name in _relevant_impls():
        namespace, operator, key = name.split("/")
        for line in torch._C._dispatch_dump(f"{namespace}::{operator}").splitlines():
            kernel, _, place = line.partition(": registered at ")
            if kernel.split("[")[0].strip() == key and ".py:" in place and not place.startswith(own):
                found.append(name)
    for name, entry in simple_registry.singleton._data.items():
        if name.startswith(("aten::", "prims::")) and any(not is_known(k.func) for k in entry.fake_impl.kernels):
            found.append(f"{name} (fake)")
    return sorted(set(found))


def describe(operators: Iterable[torch._ops.OpOverload], classes: Iterable[type] = ()) -> str:
    """A digest of operators and of classes of tensors, the same in every process that defines them alike.

    Raises:
        UnreadableError: a definition that cannot be read; says which and why.
    """
    digest = _Digest()
    for op in operators:
        digest.add_operator(op)
    for each in classes:
        digest.add(each, each.__qualname__)
    return digest.hexdigest()


class _Digest:
    """Takes values in an order that depends on nothing but them."""

    def __init__(self, seen: dict[int, int] | None = None) -> None:
        self.hash = hashlib.sha256(f"{sys.version_info[:3]}".encode())
        self.seen = {} if seen is None else seen
        self.alive: list[Any] = []  # so that no `id` is used twice

    def hexdigest(self) -> str:
        return self.hash.hexdigest()

    def token(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            self.hash.update(b"%d:" % len(data) + data)

    def is_seen(self, value: Any) -> bool:
        """Whether it came before; if so, its number stands for it."""
        if id(value) in self.seen:
            self.token("again", self.seen[id(value)])
            return True
        if len(self.seen) >= _MOST_OBJECTS:
            raise UnreadableError(f"a definition reaches more than {_MOST_OBJECTS} objects")
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        return False

    def add(self, value: Any, path: str) -> None:
        """Takes a value; `path` names it in messages."""
        if isinstance(value, enum.Enum):
            self.token("enum", type(value).__qualname__, value.name)
        elif isinstance(value, _ATOMS):
            self.token(type(value).__name__, repr(value))
        elif isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            self.token("op", value)
            for op in _overloads(value):
                self.add_operator(op)
        elif isinstance(value, types.CodeType):
            self.add_code(value, path)
        elif not self.is_seen(value):
            self.add_object(value, path)

    def add_all(self, values: Iterable[Any], path: str) -> None:
        for value in values:
            self.add(value, path)
        self.token("end")

    def add_object(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, custom_ops.CustomOpDef):
            self.add_operator(value._opoverload)
        elif isinstance(value, types.ModuleType):
            self.token("module", value.__name__)
        elif isinstance(value, types.FunctionType):
            self.add_function(value, path)
        elif isinstance(value, type):
            self.add_class(value, path)
        elif isinstance(value, types.MethodType):
            self.add_all((value.__self__, value.__func__), path)
        elif isinstance(value, (staticmethod, classmethod)):
            self.token(kind.__name__)
            self.add(value.__func__, path)
        elif isinstance(value, property):
            self.add_all((value.fget, value.fset, value.fdel), path)
        elif isinstance(value, functools.partial):
            self.add_all((value.func, value.args, value.keywords), path)
        elif kind in (tuple, list, torch.Size):
            self.token(kind.__name__)
            self.add_all(value, path)
        elif kind is dict or kind is types.MappingProxyType:
            self.token("dict")
            self.add_all((item for pair in value.items() for item in pair), path)
        elif kind in (set, frozenset):
            self.add_set(value, path)
        elif isinstance(value, torch.Tensor):
            self.add_tensor(value, path)
        elif hasattr(value, "__wrapped__") and callable(value) and is_known(kind):
            self.token(kind.__qualname__)  # functools.cache and the like
            self.add(value.__wrapped__, path)
        else:
            self.add_instance(value, path)

    def add_instance(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, logging.Logger):
            self.token("logger", value.name)  # decides what is said alone
        elif kind.__module__.startswith("triton.") and hasattr(value, "cache_key"):
            self.token("kernel", value.cache_key)
        elif _root(kind.__module__) == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            self.add_bytes((value.dtype, getattr(value, "shape", ())), value.tobytes(), path)
        elif hasattr(value, "__dict__") and _is_plain(kind):
            self.token("instance")
            self.add(kind, path)
            self.add(dict(vars(value)), path)
        elif callable(value) and hasattr(value, "__name__"):
            # A function of an extension: known by its name and by the version of what defines it.
            owner = getattr(value, "__self__", None)
            self.token("builtin", getattr(value, "__module__", None), value.__name__, *_version(value))
            if owner is not None and not isinstance(owner, types.ModuleType):
                self.add(owner, path)
        else:
            raise UnreadableError(f"{path} is a {kind.__module__}.{kind.__qualname__}, whose value has no digest")

    def add_set(self, values: Any, path: str) -> None:
        digests = []
        for value in values:
            part = _Digest(self.seen)
            part.add(value, path)
            self.alive += part.alive
            digests.append(part.hexdigest())
        self.token("set", *sorted(digests))

    def add_bytes(self, facts: Any, content: bytes, path: str) -> None:
        if len(content) > _MOST_BYTES:
            raise UnreadableError(f"{path} holds {len(content)} bytes")
        self.token("bytes", facts, content)

    def add_tensor(self, value: torch.Tensor, path: str) -> None:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.device.type != "cpu":
            raise UnreadableError(f"{path} is a tensor on {value.device} or of a class of its own")
        if value.layout is not torch.strided or value.numel() * value.element_size() > _MOST_BYTES:
            raise UnreadableError(f"{path} is a tensor that is sparse or large")
        facts = (value.dtype, tuple(value.shape), value.stride(), value.requires_grad)
        with torch.no_grad():
            content = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        self.add_bytes(facts, content, path)

    def add_class(self, value: type, path: str) -> None:
        self.token("class", value.__module__ if is_known(value) else "", value.__qualname__)
        if is_known(value):
            return
        if value.__flags__ & (1 << 9) == 0:
            self.token(*_version(value))
            return
        self.add_all(value.__bases__, path)
        for name, member in vars(value).items():
            if name not in _UNTOLD_MEMBERS:
                self.token(name)
                if not isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                    self.add(member, f"{path}.{name}")

    def add_function(self, value: types.FunctionType, path: str) -> None:
        self.token("function", value.__module__ if is_known(value) else "", value.__qualname__)
        if is_known(value):  # a decorator of torch holds the user's function
            self.add_all(filter(is_present, map(cell_content, value.__closure__ or ())), path)
            return
        self.add_code(value.__code__, path)
        self.add_all((value.__defaults__, value.__kwdefaults__), path)
        for name, read in self.reads(value, path):
            self.token(name)
            self.add(read, f"{path}: {name}")

    def add_code(self, code: types.CodeType, path: str) -> None:
        """Instructions, without the places of lines."""
        self.token("code", code.co_code, code.co_flags, code.co_argcount, code.co_kwonlyargcount, code.co_varnames)
        self.token(code.co_names, code.co_freevars, code.co_cellvars, getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.add_code(constant, path)
            else:
                self.add(constant, path)

    def reads(self, function: types.FunctionType, path: str) -> Iterator[tuple[str, Any]]:
        """Name and value of what a function and those within it read from outside."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        pending = [function.__code__]
        while pending:
            code = pending.pop()
            pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]
            for kind, chain in names_read(code):
                if kind == "import":
                    if _root(chain[0]) not in _KNOWN_MODULES:
                        raise UnreadableError(f"{path} imports {chain[0]} when it runs")
                elif kind == "cell":
                    if chain[0] in cells and (found := cell_content(cells[chain[0]])) is not MISSING:
                        yield _follow(found, chain)
                elif chain[0] in function.__globals__:
                    yield _follow(function.__globals__[chain[0]], chain)
        # Cells that nothing reads by name: `super()`.
        for name, cell in cells.items():
            if (found := cell_content(cell)) is not MISSING:
                yield name, found

    def add_operator(self, op: torch._ops.OpOverload) -> None:
        """Everything that is registered for an operator and matters before it runs."""
        if self.is_seen(op):
            return
        name = op._schema.name + (f".{op._schema.overload_name}" if op._schema.overload_name else "")
        self.token("operator", name, op._schema, sorted(map(str, op.tags)))
        is_python = False
        custom = custom_ops.OPDEFS.get(name)
        if custom is not None:
            is_python = True
            self.token("custom", sorted((str(k), str(v)) for k, v in custom._autocast_dtype.items()))
            parts = (custom._abstract_fn, custom._backward_fn, custom._setup_context_fn, custom._vmap_fn)
            self.add_all(parts, name)
        entry = simple_registry.singleton.get(name)
        has_fake = entry is not None and entry.fake_impl.kernel is not None
        if entry is not None:
            self.token("effect", entry.effect.effect)
            if has_fake and custom is None:
                is_python = True
                self.add(entry.fake_impl.kernel.func, f"the fake implementation of {name}")
            for kind, rule in entry.torch_dispatch_rules._data.items():
                is_python = True
                self.token("rule", kind.__qualname__)
                # triton_op: the function is traced.
                self.add(custom._init_fn if custom is not None else rule, f"a rule of {name}")
                if custom is not None:
                    self.add(custom._torch_dispatch_fns.get(kind), f"a rule of {name}")
        for place, function in op.py_kernels.items():
            is_python = True
            self.token("kernel", place)
            self.add(function, f"the kernel of {name} for {place}")
        for key in _python_keys(name):
            is_python = True
            is_read = key in _BACKENDS or (custom is not None and key in _KEYS_OF_CUSTOM_OPS)
            if not is_read and not (has_fake and key in ("Meta", "CompositeExplicitAutograd")):
                raise UnreadableError(f"{name} has a kernel for {key or 'CompositeImplicitAutograd'} in Python")
        if not is_python:
            self.token(*_loaded_libraries())


def _is_plain(kind: type) -> bool:
    """Whether an instance is its `__dict__` and no more: there is no room for other fields."""
    pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ == object.__basicsize__ + 8 * pointers


def _follow(value: Any, chain: tuple[str, ...]) -> tuple[str, Any]:
    """What `a.b.c` names, as far as modules and operators go; attributes of other objects belong to their values."""
    for i, name in enumerate(chain[1:], 1):
        if not isinstance(value, (types.ModuleType, torch._ops._OpNamespace, torch._ops.OpOverloadPacket)):
            return ".".join(chain[:i]), value
        found = getattr(value, name, MISSING)
        if found is MISSING:
            return ".".join(chain[:i]), None if isinstance(value, torch._ops._OpNamespace) else value
        value = found
    return ".".join(chain), value


def _python_keys(name: str) -> list[str]:
    """Dispatch keys that have a Python function for an operator."""
    prefix = name.replace("::", "/") + "/"
    return sorted(each[len(prefix) :] for each in torch.library._impls if each.startswith(prefix))


def runs_in_python(name: str, device: str) -> bool:
    """Whether an operator's kernel for a kind of device ("cpu", "cuda") is a Python function."""
    keys = {device.upper(), "CompositeExplicitAutograd", "CompositeImplicitAutograd", ""}
    return name in custom_ops.OPDEFS or not keys.isdisjoint(_python_keys(name))


def _content(file: str) -> str:
    try:
        return f"{os.path.basename(file)} {file_contents.of_file(file)}"
    except OSError:
        return f"{os.path.basename(file)} missing"


def _version(value: Any) -> list[str]:
    module = sys.modules.get(_root(getattr(value, "__module__", None)))
    if module is None or is_known(value):
        return []
    file = getattr(module, "__file__", None)
    return [str(getattr(module, "__version__", "")), _content(file) if file else ""]


def _loaded_libraries() -> list[str]:
    """Libraries that may define operators in C++: those that torch.ops loaded, and extensions beside torch's own."""
    files = set(torch.ops.loaded_libraries)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".so") and _root(name) not in _KNOWN_MODULES:
            files.add(file)
    return sorted(map(_content, files))
