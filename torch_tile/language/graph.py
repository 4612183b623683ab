"""Kernels inside torch.compile: a launch becomes one operator of the graph, `torch_tile::launch`.

The operator names the kernel and its constants by a key, which this process learns while Dynamo traces the launch; the
key depends on sources alone wherever it can, so graphs on disk stay true. Arguments travel in flat lists; a template
says how they are put together again. Constants of autotuned kernels are chosen when the operator runs.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import logging
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import torch

from torch_tile import config
from torch_tile.language.compile_time_values import constexpr
from torch_tile.language.dtypes import dtype, dtype_of_name
from torch_tile.language.launch_options import hints_of

log = logging.getLogger(__name__)

KERNELS: dict[str, Any] = {}


class Recorded(NamedTuple):
    """A launch that Dynamo has traced."""

    kernel: Any  # or an autotuner or heuristics around one
    templates: dict[str, Any]  # by parameter
    configs: Any  # for which a grid is recorded
    hints: dict[str, Any]  # num_warps and the like


_launches: dict[str, Recorded] = {}
_serial = itertools.count()

# torch has no types for these.
_library: Any = torch.library.Library("torch_tile", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(
    "launch(str key, SymInt[] grid, Tensor(a!)[] written, Tensor[] read, SymInt[] integers, float[] floats) -> ()"
)


def register(kernel: Any) -> str:
    """Numbers a kernel, or an autotuner or heuristics around one; Dynamo knows it by that.

    A text, for Dynamo may take integers for dynamic ones.
    """
    index = f"kernel {len(KERNELS)}"
    KERNELS[index] = kernel
    return index


# --- running ----------------------------------------------------------------------------------------------------------


def _build(template: Any, sources: dict[str, Any]) -> Any:
    """An argument from its template and the flat lists."""
    kind = template[0]
    if kind in "wrtif":
        return next(sources[kind])
    if kind == "b":
        return bool(next(sources["i"]))
    if kind == "c":
        return template[1]
    if kind == "x":
        return constexpr(template[1])
    if kind == "d":
        return dtype_of_name(template[1])
    if kind == "k":
        return KERNELS[template[1]]
    if kind == "tuple":
        items = [_build(item, sources) for item in template[2]]
        return template[1](*items) if template[1] is not tuple else tuple(items)
    if kind == "wrapper":
        from torch_tile.language.launch_arguments import TensorWrapper

        return TensorWrapper(_build(template[1], sources), _build(template[2], sources))
    base = _build(template[1], sources)
    shape, strides, block = ([_build(t, sources) for t in part] for part in template[2:5])
    return SimpleNamespace(base=base, shape=shape, strides=strides, block_shape=block, padding=template[5])


def _launch(key: str, grid: Any, written: Any, read: Any, integers: Any, floats: Any) -> None:
    found = _launches.get(key)
    if found is None:
        raise RuntimeError(f"the kernel {key} is not known in this process; import the module that defines it")
    kernel, parameters, configs, hints = found
    sources = {"w": iter(written), "r": iter(read), "i": iter(integers), "f": iter(floats)}
    arguments = {name: _build(template, sources) for name, template in parameters.items()}
    sizes = list(grid)
    if configs is None:
        positional = _positional_arguments(kernel, arguments)
        kernel.run(*positional, grid=tuple(sizes), **arguments, **hints)
        return

    def chosen(meta: dict[str, Any]) -> tuple[int, ...]:
        for number, choice in enumerate(configs):
            if all(meta.get(name) == value for name, value in choice.kwargs.items()):
                return tuple(sizes[3 * number : 3 * number + 3])
        raise RuntimeError(f"kernel {kernel.fn.__name__}: no grid was recorded for the configuration that was chosen")

    kernel.run(grid=chosen, **arguments, **hints)


def _positional_arguments(kernel: Any, arguments: dict[str, Any]) -> list[Any]:
    """Takes what a launch must pass by position out of arguments by name: what comes before `*args`, and its items."""
    params = kernel.params
    starred = next((k for k, p in enumerate(params) if p.kind is p.kind.VAR_POSITIONAL), None)
    positional: list[Any] = []
    if starred is not None:
        positional = [arguments.pop(p.name) for p in params[:starred]]
        positional += arguments.pop(params[starred].name)
    return positional


def bind_named(kernel: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter, `*args` as a tuple, from those that a launch names."""
    if kernel.has_variadic_parameters:
        return {p.name: named.get(p.name, p.default) for p in kernel.params}
    bound: dict[str, Any] = kernel.bind((), named)
    return bound


def _bind_variadic(kernel: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Arguments of a launch by parameter, `*args` as a tuple; None where they do not fit, or `**kwargs` are taken."""
    named: dict[str, Any] = {}
    rest = list(args)
    for parameter in kernel.params:
        if parameter.kind is parameter.kind.VAR_KEYWORD:
            return None
        if parameter.kind is parameter.kind.VAR_POSITIONAL:
            named[parameter.name] = tuple(rest)
            rest = []
        elif rest and parameter.kind is not parameter.kind.KEYWORD_ONLY:
            named[parameter.name] = rest.pop(0)
        elif parameter.name in kwargs:
            named[parameter.name] = kwargs[parameter.name]
        elif parameter.has_default:
            named[parameter.name] = parameter.default
        else:
            return None
    return None if rest else named


def find(key: str) -> Recorded:
    """A launch that this process has traced."""
    return _launches[key]


def flat_arguments(template: Any, sources: dict[str, Any]) -> list[Any]:
    """What an argument takes from the flat lists, in the order of the kernel's own arguments."""
    kind = template[0]
    if kind in "wrif" or kind == "b":
        return [next(sources["i" if kind == "b" else kind])]
    if kind == "tuple":
        return [v for item in template[2] for v in flat_arguments(item, sources)]
    if kind == "descriptor":
        items = [template[1], *template[2], *template[3]]
        return [v for item in items for v in flat_arguments(item, sources)]
    return flat_arguments(template[1], sources) if kind == "wrapper" else []


def sample_arguments(templates: dict[str, Any], values: Any) -> dict[str, Any]:
    """Arguments from `values`, which stand in the order of `flat_arguments`."""
    sources = dict.fromkeys("wrif", values)
    return {name: _build(template, sources) for name, template in templates.items()}


def _fake(key: str, grid: Any, written: Any, read: Any, integers: Any, floats: Any) -> None:
    return None


for _device in ("CPU", "CUDA"):
    _library.impl("launch", _launch, _device)
_library._register_fake("launch", _fake)


# --- learning keys ----------------------------------------------------------------------------------------------------


def _sample(template: Any) -> Any:
    """A stand-in for an argument, of its type."""
    kind = template[0]
    if kind == "t":
        return torch.empty((), dtype=template[1])
    if kind in "ifb":
        return {"i": 2, "f": 1.5, "b": False}[kind]
    if kind == "tuple":
        items = [_sample(item) for item in template[2]]
        return template[1](*items) if template[1] is not tuple else tuple(items)
    if kind == "descriptor":
        base = _sample(template[1])
        shape, strides, block = ([_sample(t) for t in part] for part in template[2:5])
        return SimpleNamespace(base=base, shape=shape, strides=strides, block_shape=block, padding=template[5])
    if kind == "wrapper":
        from torch_tile.language.launch_arguments import TensorWrapper

        return TensorWrapper(_sample(template[1]), _sample(template[2]))
    return _build(template, {})


def _num_tensors(template: Any) -> int:
    if template[0] == "t":
        return 1
    if template[0] == "tuple":
        return sum(_num_tensors(item) for item in template[2])
    return _num_tensors(template[1]) if template[0] in ("descriptor", "wrapper") else 0


def _innermost(kernel: Any) -> tuple[Any, list[Any]]:
    """The kernel itself, and the autotuners and heuristics around it, outermost first."""
    wrappers = []
    while hasattr(kernel, "kernel"):
        wrappers.append(kernel)
        kernel = kernel.kernel
    return kernel, wrappers


def _written(outer: Any, templates: dict[str, Any], texts: list[str]) -> list[bool]:
    """Per tensor, in the order of the parameters: whether a launch may write to it. Adds what was traced to `texts`."""
    from torch_tile.language.compile import written_pointers

    kernel, wrappers = _innermost(outer)
    count = sum(_num_tensors(t) for t in templates.values())
    everything = [True] * count
    choices: list[dict[str, Any]] = [{}]
    named: set[str] = set()
    for wrapper in wrappers:
        if not hasattr(wrapper, "configs"):
            continue
        if wrapper.pre_hook or wrapper.post_hook or any(c.pre_hook for c in wrapper.configs):
            return everything  # hooks may write to anything
        choices = [{**choice, **c.kwargs} for choice in choices for c in wrapper.configs]
        named |= {*wrapper.reset_to_zero, *wrapper.restore_value}
    flags = [False] * count
    for choice in choices:
        try:
            bound = {name: _sample(template) for name, template in templates.items()} | choice
            for wrapper in wrappers:
                if not hasattr(wrapper, "configs"):
                    for name, function in wrapper.values.items():
                        bound[name] = function(bound)
            found, text = written_pointers(kernel, bind_named(kernel, bound))
            texts.append(text)
        except Exception as error:
            log.debug("what kernel %s writes is not known: %s", kernel.fn.__name__, error)
            return everything
        if len(found) != count:
            return everything
        flags = [a or b for a, b in zip(flags, found, strict=True)]
    position = 0
    for name, template in templates.items():
        for _ in range(_num_tensors(template)):
            flags[position] |= name in named
            position += 1
    return flags


def _marked(template: Any, letters: Any) -> Any:
    """The template with tensors told apart into written (w) and read (r)."""
    kind = template[0]
    if kind == "t":
        return (next(letters),)
    if kind == "tuple":
        return (kind, template[1], tuple([_marked(item, letters) for item in template[2]]))
    if kind in ("descriptor", "wrapper"):
        return (kind, _marked(template[1], letters), *template[2:])
    return template


def _identity(value: Any) -> str:
    """What tells constants apart, between processes where that is possible."""
    if isinstance(value, tuple):
        return f"({','.join(_identity(v) for v in value)})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if callable(value):
        if getattr(value, "__closure__", None) or getattr(value, "__defaults__", None):
            return f"closure {next(_serial)}"
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            return f"function {next(_serial)}"
    return repr(value)


def remember(index: str, names: Any, templates: Any, has_grids: bool, hints: Any = ()) -> tuple[str, str]:
    """Key of a launch, and a letter per tensor: written (w) or read (r).

    Runs while Dynamo traces, as Python: arguments and result are constants.
    """
    outer = KERNELS[index]
    kernel, wrappers = _innermost(outer)
    by_name = dict(zip(names, templates, strict=True))
    # Arguments are built in the order of the kernel's parameters.
    by_name = {name: by_name[name] for name in kernel.arg_names if name in by_name}
    # The text depends on every function that the kernel calls; the source is its own alone.
    texts: list[str] = []
    letters = "".join("w" if flag else "r" for flag in _written(outer, by_name, texts))
    configs = next((w.configs for w in wrappers if hasattr(w, "configs")), None) if has_grids else None
    mode = "interpreted" if config.get("interpret") else "compiled"
    described = [mode, kernel.src, letters, *texts, *(f"{name}={_identity(t)}" for name, t in by_name.items())]
    described += [repr(c.all_kwargs()) for w in wrappers for c in getattr(w, "configs", ())]
    described += [f"hint {name}={value!r}" for name, value in hints]
    described += [_identity(f) for w in wrappers for f in getattr(w, "values", {}).values()]
    described += [_identity(_constants_of(template)) for template in by_name.values()]
    digest = hashlib.sha256("\0".join(described).encode()).hexdigest()[:16]
    key = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}:{digest}"
    iterator = iter(letters)
    _launches[key] = Recorded(outer, {name: _marked(t, iterator) for name, t in by_name.items()}, configs, dict(hints))
    return key, letters


def _constants_of(template: Any) -> Any:
    """Kernels passed as constants count by their source, not by their number."""
    return KERNELS[template[1]].src if template[0] == "k" else ()


# --- values from outside ---------------------------------------------------------------------------------------------


class _Modules:
    """Modules by name, as attributes: Dynamo guards on what is read of an attribute alone."""


_modules = _Modules()


def _floats(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_floats, value))
    return value if isinstance(value, float) else None


def outer_places(index: str) -> tuple[tuple[tuple[str, ...], Any], ...]:
    """Where values stand that the kernel reads from outside, a module and names from there on; and floats among them.

    Runs while Dynamo traces, as Python.
    """
    from torch_tile.language.outer_values import places_of

    kernel, wrappers = _innermost(KERNELS[index])
    functions = [f for w in wrappers for f in getattr(w, "values", {}).values()]
    found = []
    for module, names, value in places_of([kernel, *functions]):
        key = f"module_{hashlib.sha256(module.__name__.encode()).hexdigest()[:16]}"
        setattr(_modules, key, module)
        found.append(((key, *names), _floats(value)))
    return tuple(found)


def _compare(values: Any) -> None:
    """Takes constants: Dynamo makes guards on their values for that."""


def _fixed(flat: _Flat, value: Any, known: Any) -> Any:
    """A value as a constant. A float that has changed is a symbol of Dynamo's, which a comparison makes a constant."""
    if isinstance(value, (list, tuple)):
        return tuple([_fixed(flat, v, k) for v, k in zip(value, known, strict=True)])
    if isinstance(value, (float, torch.SymFloat)):
        return 1 if value == known else 0  # a branch
    return flat.constant(value)


def _guard_outer_values(flat: _Flat, index: str) -> None:
    """Reads what the kernel reads from outside, so that Dynamo traces again once it has changed."""
    values: list[Any] = []
    for place, known in outer_places(index):
        value: Any = _modules
        for name in place:
            value = getattr(value, name)
        if not isinstance(value, FunctionType):
            values.append(_fixed(flat, value, known))
    _compare(tuple(values))


# What torch.compiler.assume_constant_result sets, without importing Dynamo.
remember._dynamo_marked_constant = True  # type: ignore[attr-defined]
outer_places._dynamo_marked_constant = True  # type: ignore[attr-defined]
_compare._dynamo_marked_constant = True  # type: ignore[attr-defined]


# --- what Dynamo traces -----------------------------------------------------------------------------------------------


def _run_outside(kernel: Any, args: Any, kwargs: Any, grid: Any) -> None:
    kernel.run(*args, grid=grid, **kwargs)


# A break of the graph; Dynamo is imported when it is first called, which is when Dynamo traces.
run_outside: Any = torch._disable_dynamo(_run_outside)  # type: ignore[attr-defined]


class _Flat:
    """The lists in which arguments travel."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.integers: list[Any] = []
        self.floats: list[Any] = []

    def constant(self, value: Any) -> Any:
        if isinstance(value, constexpr):
            value = value.value
        if isinstance(value, dtype):
            return ("d", value.name)
        if isinstance(value, torch.SymInt):
            return ("c", int(value))
        if hasattr(value, "launchers") and hasattr(value, "index"):
            return ("k", value.index)
        if isinstance(value, (list, tuple)):
            kind = type(value) if hasattr(value, "_fields") else tuple
            return ("tuple", kind, tuple([self.constant(v) for v in value]))
        return ("c", value)

    def add(self, value: Any) -> Any:
        """Template of an argument; what changes from run to run goes into the lists."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return ("t", value.dtype)
        if isinstance(value, bool):
            self.integers.append(int(value))
            return ("b",)
        if isinstance(value, (int, torch.SymInt)):
            self.integers.append(value)
            return ("i",)
        if isinstance(value, (float, torch.SymFloat)):
            self.floats.append(value)
            return ("f",)
        if isinstance(value, constexpr):
            return ("x", value.value)
        if isinstance(value, (list, tuple)):
            kind = type(value) if hasattr(value, "_fields") else tuple
            return ("tuple", kind, tuple([self.add(v) for v in value]))
        if hasattr(value, "block_shape"):
            base = self.add(value.base)
            shape = tuple([self.add(v) for v in value.shape])
            strides = tuple([self.add(v) for v in value.strides])
            block = tuple([self.constant(v) for v in value.block_shape])
            return ("descriptor", base, shape, strides, block, getattr(value, "padding", "zero"))
        if hasattr(value, "base") and hasattr(value, "dtype"):
            return ("wrapper", self.add(value.base), self.constant(value.dtype))
        return self.constant(value)


def _sizes(grid: Any) -> list[Any]:
    sizes = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    return [*sizes, 1, 1][:3]


def launch_in_graph(outer: Any, grid: Any, args: Any, kwargs: Any) -> None:
    """What Dynamo traces in place of a launch of a kernel, or of an autotuner or heuristics around one."""
    kernel, wrappers = outer, []
    while hasattr(kernel, "kernel"):
        wrappers.append(kernel)
        kernel = kernel.kernel
    variadic = _bind_variadic(kernel, args, kwargs) if kernel.has_variadic_parameters and not wrappers else None
    is_unknown = kernel.has_variadic_parameters and variadic is None
    if is_unknown or len([w for w in wrappers if hasattr(w, "configs")]) > 1:
        run_outside(outer, args, kwargs, grid)
        return
    if variadic is not None:
        named = variadic
    elif wrappers:
        named = dict(zip(kernel.arg_names, args, strict=False))
        for name, value in kwargs.items():
            if name in kernel.arg_names:
                named[name] = value
    else:
        named = kernel.bind(args, kwargs)
    flat = _Flat()
    names: list[str] = []
    templates: list[Any] = []
    for parameter in kernel.params:
        if parameter.name in named:
            value = named[parameter.name]
            names.append(parameter.name)
            templates.append(flat.constant(value) if parameter.is_constexpr else flat.add(value))
    has_grids = callable(grid) and any(hasattr(w, "configs") for w in wrappers)
    if not callable(grid):
        sizes = _sizes(grid)
    else:
        for parameter in kernel.params:
            if parameter.name not in named and parameter.has_default:
                named[parameter.name] = parameter.default
        metas: list[dict[str, Any]] = [dict(named)]
        for wrapper in wrappers:
            if hasattr(wrapper, "configs"):
                metas = [{**meta, **config.kwargs} for meta in metas for config in wrapper.configs]
            else:
                for meta in metas:
                    for name, function in wrapper.values.items():
                        meta[name] = function(meta)
        sizes = []
        for meta in metas:
            sizes += _sizes(grid(meta))
    hints = hints_of(kwargs, kernel.arg_names)
    key, letters = remember(outer.index, tuple(names), tuple(templates), has_grids, tuple(hints.items()))
    _guard_outer_values(flat, outer.index)
    written = [t for t, letter in zip(flat.tensors, letters, strict=True) if letter == "w"]
    read = [t for t, letter in zip(flat.tensors, letters, strict=True) if letter == "r"]
    torch.ops.torch_tile.launch(key, sizes, written, read, flat.integers, flat.floats)
