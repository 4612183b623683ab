"""Analysis of statement blocks: assigned names, and exits."""

from __future__ import annotations

import ast
from typing import Any

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _walk_block(nodes: Any) -> Any:
    """Nodes of statements, without the inside of nested functions."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, SCOPES):
            continue
        stack.extend(ast.iter_child_nodes(node))


def bound_names(target: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def assigned_names(statements: list[ast.stmt]) -> list[str]:
    """Variables that a block assigns, in order of appearance."""
    found: dict[str, tuple[int, int]] = {}

    def see(name: str, node: Any) -> None:
        if not name.startswith("__tile"):
            found.setdefault(name, (node.lineno, node.col_offset))

    for node in _walk_block(statements):
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            see(node.name, node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            see(node.id, node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                see((alias.asname or alias.name).split(".")[0], node)
    for node in _walk_block(statements):  # targets of comprehensions are theirs alone
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            for generator in node.generators:
                for name in bound_names(generator.target):
                    if not _is_assigned_outside(name, statements):
                        found.pop(name, None)
    return sorted(found, key=lambda name: found[name])


def _is_assigned_outside(name: str, statements: list[ast.stmt]) -> bool:
    targets = [
        id(t)
        for node in _walk_block(statements)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        for generator in node.generators
        for t in ast.walk(generator.target)
    ]
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name and id(n) not in targets
        for n in _walk_block(statements)
    )


def leaves(statements: list[ast.stmt], kinds: Any) -> bool:
    """Whether a block holds one of these statements for its own loop or function."""
    for statement in statements:
        if isinstance(statement, kinds):
            return True
        if isinstance(statement, SCOPES):
            continue
        inner = kinds
        if isinstance(statement, (ast.For, ast.While)):
            inner = tuple(k for k in kinds if k is ast.Return)
        for field in ("body", "orelse", "finalbody"):
            if inner and leaves(getattr(statement, field, []), inner):
                return True
        for handler in getattr(statement, "handlers", []):
            if inner and leaves(handler.body, inner):
                return True
    return False


def always_returns(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.Return, ast.Raise)):
            return True
        if isinstance(statement, ast.If) and always_returns(statement.body) and always_returns(statement.orelse):
            return True
    return False


EXITS = (ast.Return, ast.Break, ast.Continue)
