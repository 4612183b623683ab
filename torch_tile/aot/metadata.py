"""What a package says of arguments and results beside its programs. It is JSON, and checked where it is read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from torch_tile.aot import structures
from torch_tile.errors import PackageError

_MOST_CHARACTERS = 120


@dataclasses.dataclass(frozen=True)
class Metadata:
    """The structures of arguments and results, and which of their values the programs do not take or give."""

    in_spec: Any
    """With tuples for named tuples; None if it is not kept."""
    out_spec: Any
    num_values: int
    """Arguments, those that are literals too."""
    literals: dict[int, Any]
    """Arguments that the model was exported with, by place."""
    literal_names: dict[int, str]
    argument_names: list[str]
    outputs: list[tuple[str, Any]]
    """For each result the number among the program's, or the value."""
    steps: list[tuple[int, int, int, int]]
    """Input, dimension, and what its size is a multiple of, plus a remainder."""
    guards: list[str]
    written: list[int]
    """Inputs that the programs write. Earlier versions did not say which."""


def parsed(text: str) -> dict[str, Any]:
    """The JSON of a package.

    Raises:
        PackageError: it is none.
    """
    try:
        found: Any = json.loads(text or "{}")
        if not isinstance(found, dict):
            raise TypeError(f"expected a JSON object, got {type(found).__name__}")
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(error) from None
    return found


def read(text: str, num_inputs: int) -> Metadata:
    """What is said of arguments and results.

    Args:
        text: of the package.
        num_inputs: of its programs.

    Raises:
        PackageError: something is missing, or contradicts the rest.
    """
    found = parsed(text)
    try:
        return _read(found, num_inputs)
    except KeyError as error:
        raise _damaged(f"{error} is missing") from None
    except Exception as error:  # whatever torch's reader of structures, and ours, make of other texts
        raise _damaged(error) from None


def _read(found: dict[str, Any], num_inputs: int) -> Metadata:
    literals = {int(place): value for place, value in found["literals"].items()}
    num_values = num_inputs + len(literals)
    _expect(all(0 <= place < num_values for place in literals), "places of literals among the arguments")
    in_spec = structures.loaded(found["in_spec"])
    if in_spec is not None:
        in_spec = structures.with_tuples(in_spec)
        kinds = [child.type for child in in_spec.children()]
        _expect(in_spec.type is tuple and kinds == [tuple, dict], "a structure of positional and named arguments")
        _expect(in_spec.num_leaves == num_values, f"a structure of {num_values} arguments")
    outputs = [(str(kind), value) for kind, value in found["outputs"]]
    for kind, value in outputs:
        is_known = kind == "literal" or (kind == "program" and type(value) is int and value >= 0)
        _expect(is_known, "results of the program, and literals")
    out_spec = structures.loaded(found["out_spec"])
    _expect(out_spec is None or out_spec.num_leaves == len(outputs), f"a structure of {len(outputs)} results")
    steps = [(int(number), int(dim), int(factor), int(rest)) for number, dim, factor, rest in found.get("steps", [])]
    _expect(all(0 <= step[0] < num_inputs and step[1] >= 0 and step[2] > 0 for step in steps), "steps of sizes")
    written = [int(number) for number in found.get("written", [])]
    _expect(all(0 <= number < num_inputs for number in written), "inputs that are written")
    return Metadata(
        in_spec=in_spec,
        out_spec=out_spec,
        num_values=num_values,
        literals=literals,
        # Earlier versions wrote no names but those of inputs, and no steps.
        literal_names={int(place): str(name) for place, name in found.get("literal_names", {}).items()},
        argument_names=[str(name) for name in found.get("argument_names", [])],
        outputs=outputs,
        steps=steps,
        guards=list(found.get("guards", [])),
        written=written,
    )


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")


def _damaged(why: object) -> PackageError:
    text = str(why) or type(why).__name__
    return PackageError("load", f"the package is damaged: its description of arguments: {text[:_MOST_CHARACTERS]}")
