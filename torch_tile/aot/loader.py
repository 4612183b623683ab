"""`torch_tile.aot.load`: a packaged model as a Python callable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from torch_tile import _C, config
from torch_tile.aot import metadata, structures
from torch_tile.aot.size_guards import SizeGuards
from torch_tile.errors import InvalidKernelError, PackageError, UnsupportedError
from torch_tile.repeated_arguments import with_own_tensors


class LoadedModel:
    """A packaged model. Call it as the module that was exported; calls on several threads may overlap, but for those of
    a model that writes its buffers, which wait for each other."""

    def __init__(self, file: _C.PackageFile, variant: int, device: str, path: str = "") -> None:
        self._path = path
        self._file = file
        known = metadata.read(file.metadata, len(file.inputs))
        self._model = file.load(variant, device, config.get("matmul_library"))
        self._number = variant
        self._in_spec, self._out_spec = known.in_spec, known.out_spec
        self._num_values = known.num_values
        self._literals, self._literal_names = known.literals, known.literal_names
        self._argument_names = known.argument_names
        self._outputs = known.outputs
        self._steps = known.steps
        self._guards = SizeGuards(known.guards)
        self._written = known.written

    @property
    def target(self) -> str:
        """What the program in use was compiled for."""
        return str(self._file.variants[self._number]["target"])

    @property
    def steps(self) -> str:
        """Listing of the program."""
        return self._model.steps

    @property
    def arguments(self) -> list[tuple[str, str, list[tuple[int, int]]]]:
        """Name, dtype and for each dimension the least and the greatest size."""
        return self._file.inputs

    def constants(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers as they are now. With `freezing`, what is computed from them once is called
        `computed_0` and so on, in the place of those that nothing else reads."""
        return {row[0]: self._model.constant(number) for number, row in enumerate(self._file.constants)}

    def __repr__(self) -> str:
        names = ", ".join(name for name, *_ in self.arguments)
        return f"LoadedModel({self._path!r}, target {self.target!r}, arguments: {names or 'none'})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run.

        Raises:
            ValueError: an argument has another dtype, or a size that the model was not exported for; names both.
            TypeError: the number, names, structure or kinds of arguments are others.
            RuntimeError: an argument needs a gradient, or is an inference tensor that the model writes outside of
                inference mode; or what an operator of the model raises, with a note of the operator and the line of
                the program that was exported.
        """
        given = self._flat(args, kwargs)
        for number in self._written:
            _refuse_inference_tensor(self._file.inputs[number][0], given[number])
        try:
            results = self._model.run(with_own_tensors(given), self._note_step)
        finally:
            for number in self._written:
                _note_write(given[number])
        try:
            flat = [results[value] if kind == "program" else value for kind, value in self._outputs]
        except IndexError:
            raise PackageError(
                "run", f"{self._path!r}: the package is damaged: its program has {len(results)} results"
            ) from None
        return flat if self._out_spec is None else pytree.tree_unflatten(flat, self._out_spec)

    def _note_step(self, error: BaseException, step: str, lines: list[list[int]]) -> BaseException | None:
        from torch_tile.debug.failures import Sources, note_steps

        return note_steps(lambda: Sources.of_rows(self._file.source_lines(self._number)))(error, step, lines)

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._in_spec is None:
            values = [*pytree.tree_leaves(args), *pytree.tree_leaves(kwargs)]
            if len(values) != self._num_values:
                raise TypeError(f"expected {_counted(self._num_values)}, got {len(values)}")
        else:
            values = self._matched(args, kwargs)
        for place, value in self._literals.items():
            if not _is_same(values[place], value):
                raise ValueError(self._another_literal(place, values[place]))
        everything = values
        values = [value for place, value in enumerate(values) if place not in self._literals]
        for (name, dtype, ranges), value in zip(self._file.inputs, values, strict=True):
            if isinstance(value, bool) or not isinstance(
                value, (int, torch.SymInt) if dtype == "int" else torch.Tensor
            ):
                raise TypeError(_another_kind(name, dtype, value))
            if isinstance(value, torch.Tensor):
                _refuse_gradients(name, value)
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                ((low, high),) = ranges
                raise ValueError(f"argument `{name}` expected {low} to {high}, got an int of {value.bit_length()} bits")
        for number, dim, factor, remainder in self._steps:
            name, value = self._file.inputs[number][0], values[number]
            if isinstance(value, torch.Tensor) and dim < value.dim() and value.shape[dim] % factor != remainder:
                raise ValueError(
                    f"argument `{name}`: size of dimension {dim} expected a multiple of {factor}"
                    f"{f', plus {remainder}' if remainder else ''}, got {value.shape[dim]}"
                )
        # What lies outside a range is refused with the range.
        if self._guards and all(_fits(value, row[2]) for row, value in zip(self._file.inputs, values, strict=True)):
            self._guards.check(everything, self._name_of)
        return values

    def _name_of(self, place: int) -> str:
        """The name of an argument; `place` counts those that are literals, too."""
        if place in self._literals:
            return str(self._literal_names.get(place, f"argument number {place}"))
        return str(self._input_of(place)[0])

    def _input_of(self, place: int) -> tuple[str, str, list[tuple[int, int]]]:
        return self._file.inputs[place - sum(literal < place for literal in self._literals)]

    def _another_literal(self, place: int, value: Any) -> str:
        name = f"`{self._literal_names[place]}`" if place in self._literal_names else f"number {place}"
        return f"argument {name} was {self._literals[place]!r} when the model was exported, got {_shown(value)}"

    def _matched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Values in the order of the exported module's, if they have its structure."""
        positional, named = self._in_spec.children()
        unexpected = [name for name in kwargs if name not in named.context]
        if len(args) != positional.num_children:
            by_position = " by position" if kwargs and not named.context else ""
            raise TypeError(
                f"expected {_counted(positional.num_children)}{by_position}, got {len(args)}{_by_name(named.context)}"
                + (f"; unexpected keyword arguments: {', '.join(unexpected)}" if unexpected else "")
            )
        if kwargs.keys() != {*named.context}:
            expected, found = [", ".join(map(str, names)) or "none" for names in (named.context, kwargs)]
            raise TypeError(f"expected keyword arguments {expected}, got {found}")
        kwargs = {name: kwargs[name] for name in named.context}
        values, spec = pytree.tree_flatten((args, kwargs))
        if spec == self._in_spec:
            return values
        values = []
        specs = [*positional.children(), *named.children()]
        for number, (argument, wanted) in enumerate(zip((*args, *kwargs.values()), specs, strict=True)):
            leaves, given = pytree.tree_flatten(argument)
            given = structures.with_tuples(given)
            ordered = structures.in_order(leaves, given, wanted)
            if ordered is None:
                raise TypeError(self._another_structure(number, len(values), wanted, given, argument))
            values += ordered
        return values

    def _another_structure(self, number: int, place: int, wanted: Any, given: Any, argument: Any) -> str:
        """
        Args:
            number: of the argument, those by keyword last.
            place: of its first value among all values.
        """
        if wanted.is_leaf():
            if place in self._literals:
                return self._another_literal(place, argument)
            name, dtype, _ = self._input_of(place)
            return _another_kind(name, dtype, argument)
        positional, named = self._in_spec.children()
        names = [f"`{name}`" for name in self._argument_names[: positional.num_children]]
        names += [f"number {other}" for other in range(len(names), positional.num_children)]
        names += [f"`{name}`" for name in named.context]
        found = _text(argument) if given.is_leaf() else _structure(given)
        return f"argument {names[number]}: expected {_structure(wanted)}, got {found}"


def _is_same(value: Any, literal: Any) -> bool:
    """Whether a value is the one that the model was exported with: of its type, too, and of its sign if it is zero.
    Members of IntEnum are ints, and NumPy's float64 are floats, as they are to torch.export."""
    kind = next((kind for kind in (bool, int, float, str) if isinstance(literal, kind)), type(literal))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    return float.hex(value) == float.hex(literal) if isinstance(value, float) else bool(value == literal)


def _fits(value: Any, ranges: list[tuple[int, int]]) -> bool:
    if isinstance(value, torch.Tensor) and value.is_nested:
        return False
    sizes = value.shape if isinstance(value, torch.Tensor) else ()
    return len(sizes) != len(ranges) or all(low <= n <= high for n, (low, high) in zip(sizes, ranges, strict=True))


def _refuse_inference_tensor(name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor) and value.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"argument `{name}` is an inference tensor, which the model writes: call it in torch.inference_mode(), or "
            "with a clone of the tensor"
        )


def _note_write(value: Any) -> None:
    """Tells autograd, which may have kept the tensor for a gradient."""
    if isinstance(value, torch.Tensor) and not value.is_inference():
        torch.autograd.graph.increment_version(value)


def _refuse_gradients(name: str, value: torch.Tensor) -> None:
    if value.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            f"argument `{name}` needs a gradient, which a packaged model does not compute: call it under "
            "torch.no_grad()"
        )
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None:  # type: ignore[no-untyped-call]
        raise RuntimeError(f"argument `{name}` has a tangent, which a packaged model does not carry on")


def _counted(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _by_name(names: Any) -> str:
    return f"; keyword arguments are {', '.join(map(str, names))}" if names else ""


def _another_kind(name: str, dtype: str, value: Any) -> str:
    kind = "an int" if dtype == "int" else f"a tensor of {dtype}"
    return f"argument `{name}`: expected {kind}, got {_text(value)}"


def _text(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _shown(value: Any) -> str:
    """Numbers and strings as they are."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an int of {value.bit_length()} bits"
    return _cut(repr(value)) if isinstance(value, (int, float, str)) else _text(value)


def _structure(spec: Any) -> str:
    """A structure of arguments, with * for each value."""
    return _cut(str(pytree.tree_unflatten([_STAR] * spec.num_leaves, spec)))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " ..."


_MOST_CHARACTERS = 120


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def _open(path: str | os.PathLike[str]) -> _C.PackageFile:
    try:
        given = os.fspath(path)
    except TypeError:
        raise TypeError(f"path expected a str, bytes or an os.PathLike, got {type(path).__name__}") from None
    if ("\0" if isinstance(given, str) else b"\0") in given:
        raise ValueError(f"path {given!r} has a null character")
    try:
        return _C.open_package(given)
    except InvalidKernelError as error:
        raise PackageError(error.stage, error.text) from None


def _found(device: str | torch.device) -> tuple[torch.device, int]:
    """The device, and its compute capability: 90 for 9.0, 0 for the CPU."""
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = torch.device("meta")
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device expected 'cpu' or a CUDA device, got {str(device)!r}")
    if chosen.type == "cpu":
        return torch.device("cpu"), 0
    count = torch.cuda.device_count()
    if (chosen.index or 0) >= count:
        why = f"this machine has {count} devices"
        if not torch.cuda.is_available():
            why = "this torch is built without CUDA" if torch.version.cuda is None else "no device is there"
        raise UnsupportedError("load", f"device '{chosen}' cannot be used: {why}")
    major, minor = torch.cuda.get_device_capability(chosen)
    return torch.device("cuda", torch.cuda.current_device() if chosen.index is None else chosen.index), (
        10 * major + minor
    )


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> LoadedModel:
    """Open a package; the program for this machine that uses it best is loaded.

    Args:
        path: of a file of `torch_tile.aot.package`. It is mapped and must not be changed while it is in use.
        device: "cpu" or a CUDA device.

    Raises:
        PackageError: the file is no package, damaged, cut short, or of another version.
        TypeError: `path` is no path.
        UnsupportedError: there is no such device, or the package has no program for it; the message lists what it has.
        ValueError: `device` is another kind of device.
    """
    file = _open(path)
    with _named(path):
        is_artifact = "artifact" in metadata.parsed(file.metadata)
    if is_artifact:
        raise PackageError(
            "load",
            f"{os.fspath(path)!r} is an artifact of standalone_compile: torch_tile.CompiledArtifact.load loads it",
        )
    chosen, capability = _found(device)
    with _named(path):
        return LoadedModel(file, file.choose(capability), str(chosen), os.fsdecode(path))


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors about a package say its path, and are PackageErrors whatever the extension found wrong."""
    try:
        yield
    except (InvalidKernelError, PackageError) as error:
        raise PackageError(error.stage, f"{os.fspath(path)!r}: {error.text}") from None
    except UnicodeDecodeError as error:
        text = bytes(error.object).decode(errors="replace")
        raise PackageError("load", f"{os.fspath(path)!r}: a text of the package is no UTF-8: {text}") from None
    except RuntimeError as error:
        # Others are about this process: memory, the device, an operator that nobody has defined.
        if type(error) is not RuntimeError or (str(error) and "cannot run on device" not in str(error)):
            raise
        what = str(error) or "a program of it cannot be loaded"
        raise PackageError("load", f"{os.fspath(path)!r}: the package is damaged: {what}") from None


def verify(path: str | os.PathLike[str]) -> None:
    """Compare all of a package, constants too, with its checksums.

    Raises:
        PackageError: something is not what was written.
    """
    file = _open(path)
    with _named(path):
        file.verify()
