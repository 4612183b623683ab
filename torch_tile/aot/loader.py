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
        """
        values = self._flat(args, kwargs)
        results = self._model.run(values)
        flat = [results[value] if kind == "program" else value for kind, value in self._outputs]
        return flat if self._out_spec is None else pytree.tree_unflatten(flat, self._out_spec)

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._in_spec is None:
            values = [*pytree.tree_leaves(args), *pytree.tree_leaves(kwargs)]
        else:
            from torch.export._tree_utils import reorder_kwargs

            given = reorder_kwargs(kwargs, self._in_spec) if kwargs else kwargs
            values, spec = pytree.tree_flatten((args, given))
            if spec != self._in_spec:
                raise ValueError(f"expected arguments of the structure {self._in_spec}, got {spec}")
        for place, value in self._literals.items():
            if values[place] != value:
                raise ValueError(
                    f"argument number {place} was {value!r} when the model was exported, got {values[place]!r}"
                )
        return [value for place, value in enumerate(values) if place not in self._literals]


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
