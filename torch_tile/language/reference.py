"""The reference of the language, made from the docstrings: `python -m torch_tile.language.reference`."""

from __future__ import annotations

import inspect
from typing import Any

from torch_tile import language
from torch_tile.language.core import tensor


def functions() -> dict[str, list[tuple[str, Any]]]:
    """Section -> names and functions, as torch_tile.language holds them."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for name in language.__all__:
        value = getattr(language, name)
        section = getattr(value, "section", None)
        if section is not None:
            found.setdefault(section, []).append((name, value))
    return found


def _signature(value: Any) -> str:
    parameters = []
    for parameter in inspect.signature(value).parameters.values():
        shown = parameter.replace(annotation=inspect.Parameter.empty)
        default = shown.default
        if hasattr(default, "name") and default is not inspect.Parameter.empty:
            parameters.append(f"{shown.name}={type(default).__name__}.{default.name}")
        else:
            parameters.append(str(shown))
    return ", ".join(parameters)


def markdown() -> str:
    """The page docs/generated/language.md."""
    lines = [
        "# Functions of the tile language",
        "",
        "Made from the docstrings of `torch_tile.language`, imported as `tl`. [The tutorial](../language.md)",
        "explains how kernels are written. A function marked *method* can also be called on a tile: `x.sum(axis=0)`.",
    ]
    for section, members in functions().items():
        lines += ["", f"## {section}"]
        for name, value in sorted(members):
            kind = " *method*" if hasattr(tensor, name) and not inspect.isclass(value) else ""
            lines += ["", f"### `tl.{name}({_signature(value)})`{kind}", ""]
            doc = inspect.getdoc(value) or ""
            text, _, rest = doc.partition("\n")
            lines.append(text)
            if rest.strip():
                lines += ["", "```text", rest.strip("\n"), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
