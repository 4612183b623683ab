"""The source of a function as a tree with the positions of its file."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types

from torch_tile.errors import InvalidKernelError
from torch_tile.forks import lock_across_forks

# Candidates of autotuning are traced in threads. CPython 3.11 counts the depth of trees in one place for all threads,
# and raises SystemError where two make trees at once.
TREE_LOCK = lock_across_forks()


def parse(function: types.FunctionType, changed_source: str | None = None) -> ast.FunctionDef:
    """The function's source as a tree with the positions of its file."""
    try:
        lines, first = inspect.getsourcelines(function)
        if changed_source is not None:
            first += next((k for k, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
            lines = [changed_source]
    except (OSError, TypeError):
        raise InvalidKernelError(
            f"kernel {function.__name__}", "expected a function whose source is in a file, got one without source"
        ) from None
    source = "".join(lines)
    indented = source[:1].isspace()
    with TREE_LOCK:
        tree = ast.parse(f"if 1:\n{source}" if indented else source)
    body = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    definition = next((n for n in body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if definition is None:
        found = _find_lambda(tree, function, first - (2 if indented else 1))
        if found is None:
            raise InvalidKernelError(
                f"kernel {function.__name__}", f"expected a function, got {textwrap.dedent(source)}"
            )
        definition = ast.FunctionDef(
            name="_lambda",
            args=found.args,
            body=[ast.copy_location(ast.Return(found.body), found.body)],
            decorator_list=[],
            returns=None,
            lineno=found.lineno,
            col_offset=found.col_offset,
            end_lineno=found.end_lineno,
            end_col_offset=found.end_col_offset,
        )
        definition.type_params = []  # type: ignore[attr-defined]
    if isinstance(definition, ast.AsyncFunctionDef):
        raise unsupported(definition, "async functions")
    ast.increment_lineno(tree, first - (2 if indented else 1))
    return definition


def _find_lambda(tree: ast.AST, function: types.FunctionType, offset: int) -> ast.Lambda | None:
    """The function's own lambda among those of its source: the one that holds the positions of its code.

    Args:
        offset: what lines of the file have more than lines of the tree.
    """
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]
    if len(found) < 2:
        return found[0] if found else None
    # Python 3.10 keeps no columns; there the lambda is ambiguous.
    positions = getattr(function.__code__, "co_positions", tuple)
    spots = {
        (line - offset, column)
        for line, _, column, _ in positions()
        if line is not None and column is not None and column > 0
    }

    def holds(node: ast.Lambda) -> bool:
        body, end = (node.body.lineno, node.body.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        return bool(spots) and all(body <= spot < end for spot in spots)

    # A lambda inside another holds fewer positions, so of several the innermost is meant.
    matching = sorted((n for n in found if holds(n)), key=lambda n: (n.lineno, n.col_offset))
    if not matching:
        raise InvalidKernelError(
            f"kernel {function.__name__}", f"expected one lambda in its source, got {len(found)}; define it with def"
        )
    return matching[-1]


def unsupported(node: ast.AST, what: str, advice: str = "") -> InvalidKernelError:
    text = f"{what} are not supported in kernels{f'; {advice}' if advice else ''}"
    return InvalidKernelError("kernel", text, getattr(node, "lineno", 0))
