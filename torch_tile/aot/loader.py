"""`torch_tile.aot.load`: a packaged model as a Python callable."""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_tile import _C, config
from torch_tile.errors import InvalidKernelError, PackageError


class LoadedModel:
    """A packaged model. Call it as the module that was exported; calls on several threads may overlap, but for those of
    a model that writes its buffers, which wait for each other."""

    def __init__(self, file: _C.PackageFile, variant: int, device: str) -> None:
        self._metadata = json.loads(file.metadata)
        self._file = file
        self._model = file.load(variant, device, config.get("matmul_library"))
        self._number = variant
        self._in_spec = _loaded(self._metadata["in_spec"])
        self._out_spec = _loaded(self._metadata["out_spec"])
        self._num_values = len(self._file.inputs) + len(self._metadata["literals"])
        self._literals = {int(place): value for place, value in self._metadata["literals"].items()}
        self._outputs = self._metadata["outputs"]

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
        """Parameters and buffers as they are now."""
        return {row[0]: self._model.constant(number) for number, row in enumerate(self._file.constants)}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run.

        Raises:
            ValueError: an argument has another dtype, or a size that the model was not exported for; names both.
            TypeError: the number, names, structure or kinds of arguments are others.
        """
        values = self._flat(args, kwargs)
        results = self._model.run(values)
        flat = [results[value] if kind == "program" else value for kind, value in self._outputs]
        return flat if self._out_spec is None else pytree.tree_unflatten(flat, self._out_spec)

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._in_spec is None:
            values = [*pytree.tree_leaves(args), *pytree.tree_leaves(kwargs)]
            if len(values) != self._num_values:
                raise TypeError(f"expected {_counted(self._num_values)}, got {len(values)}")
        else:
            values = self._matched(args, kwargs)
        for place, value in self._literals.items():
            if values[place] != value:
                raise ValueError(
                    f"argument number {place} was {value!r} when the model was exported, got {values[place]!r}"
                )
        values = [value for place, value in enumerate(values) if place not in self._literals]
        for (name, dtype, _), value in zip(self._file.inputs, values, strict=True):
            if not isinstance(value, (torch.Tensor, int, torch.SymInt)):
                raise TypeError(f"argument `{name}`: expected {_kind(dtype)}, got {_text(value)}")
        return values

    def _matched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Values in the order of the exported module's, if they have its structure."""
        from torch.export._tree_utils import reorder_kwargs

        positional, named = self._in_spec.children()
        if len(args) != positional.num_children:
            raise TypeError(f"expected {_counted(positional.num_children)}, got {len(args)}{_by_name(named.context)}")
        if kwargs.keys() != {*named.context}:
            expected, found = [", ".join(map(str, names)) or "none" for names in (named.context, kwargs)]
            raise TypeError(f"expected keyword arguments {expected}, got {found}")
        values, spec = pytree.tree_flatten((args, reorder_kwargs(kwargs, self._in_spec) if kwargs else kwargs))
        if spec == self._in_spec:
            return values
        given = spec.children()
        names = [*(f"number {place}" for place in range(len(args))), *(f"`{name}`" for name in named.context)]
        pairs = [
            (wanted, got)
            for side, other in ((positional, given[0]), (named, given[1]))
            for wanted, got in zip(side.children(), other.children(), strict=True)
        ]
        for place, (wanted, got) in zip(names, pairs, strict=True):
            if wanted != got:
                raise TypeError(f"argument {place}: expected {_structure(wanted)}, got {_structure(got)}")
        raise TypeError(f"expected arguments of the structure {self._in_spec}, got {spec}")


def _counted(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _by_name(names: Any) -> str:
    return f"; keyword arguments are {', '.join(map(str, names))}" if names else ""


def _kind(dtype: str) -> str:
    return f"a tensor of {dtype}, or an integer" if dtype in ("int64", "i64", "si64") else f"a tensor of {dtype}"


def _text(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _structure(spec: Any) -> str:
    """A structure of arguments, with * for each value."""
    return str(pytree.tree_unflatten([_STAR] * spec.num_leaves, spec))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def _loaded(spec: str | None) -> Any:
    return None if spec is None else pytree.treespec_loads(spec)


def _open(path: str | os.PathLike[str]) -> _C.PackageFile:
    try:
        return _C.open_package(os.fspath(path))
    except InvalidKernelError as error:
        raise PackageError(error.stage, error.text) from None


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> LoadedModel:
    """Open a package; the program for this machine that uses it best is loaded.

    Args:
        path: of a file of `torch_tile.aot.package`. It is mapped and must not be changed while it is in use.
        device: "cpu" or a CUDA device.

    Raises:
        PackageError: the file is no package, damaged, cut short, or of another version.
        UnsupportedError: the package has no program for this machine; the message lists what it has.
    """
    file = _open(path)
    chosen = torch.device(device)
    capability = 0
    if chosen.type == "cuda":
        major, minor = torch.cuda.get_device_capability(chosen)
        capability = 10 * major + minor
        chosen = torch.device("cuda", torch.cuda.current_device() if chosen.index is None else chosen.index)
    try:
        return LoadedModel(file, file.choose(capability), str(chosen))
    except InvalidKernelError as error:
        raise PackageError(error.stage, f"{os.fspath(path)!r}: {error.text}") from None


def verify(path: str | os.PathLike[str]) -> None:
    """Compare all of a package, constants too, with its checksums.

    Raises:
        PackageError: something is not what was written.
    """
    try:
        _open(path).verify()
    except InvalidKernelError as error:
        raise PackageError(error.stage, f"{os.fspath(path)!r}: {error.text}") from None
