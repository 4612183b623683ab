"""Rewrites the control flow of a kernel's source; everything else of Python is left to Python.

Two forms are made of one function. For the interpreter, `and`, `or`, `not`, chained comparisons, `assert` and the
iterables of loops become calls, so that they mean on tiles and run-time values what compiled code means by them;
statements stay as they are, and loops look at their variables after each turn. For the tracer, `if`, `for`, `while` and
conditional expressions become calls of local functions too: each takes the variables that its block assigns and returns
them. The code is compiled with the file name and the positions of the source, so tracebacks and debuggers show the
user's lines.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from torch_tile.errors import InvalidKernelError
from torch_tile.language.blocks import EXITS, always_returns, assigned_names, bound_names, leaves
from torch_tile.language.source_trees import TREE_LOCK, parse, unsupported

RUNTIME = "__tile__"
# Functions of Python that mean more on run-time values.
BUILTINS = frozenset({"min", "max", "print", "isinstance"})
# Expressions that are no number, so that assigning them is plain.
_NEVER_NUMBERS = (
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.JoinedStr,
    ast.Compare,
)


def rewrite(
    function: types.FunctionType, for_tracing: bool, runtime: Any, changed_source: str | None = None
) -> types.FunctionType:
    """The function in one of its two forms. Defaults, closure and globals are those of the original."""
    definition = parse(function, changed_source)
    rewriter = _Rewriter(for_tracing)
    arguments = definition.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    definition.decorator_list, definition.returns = [], None
    definition.body = rewriter.function_body(definition.body)
    if not rewriter.changed and changed_source is None:
        return function
    free = function.__code__.co_freevars
    with TREE_LOCK:
        factory = ast.parse(f"def __make__({', '.join([RUNTIME, *free])}):\n    pass\n    return {definition.name}")
    outer: Any = factory.body[0]
    outer.body[0] = definition
    ast.fix_missing_locations(factory)
    with TREE_LOCK:
        code = compile(factory, function.__code__.co_filename, "exec")
    scope: dict[str, Any] = {}
    exec(code, {"__name__": function.__module__}, scope)
    made = scope["__make__"](runtime, *[None] * len(free))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    cells[RUNTIME] = types.CellType(runtime)
    if definition.name in made.__code__.co_freevars and definition.name not in cells:
        raise InvalidKernelError(
            f"kernel {function.__name__}", "recursion is not supported: it calls itself; use a loop", definition.lineno
        )
    closure = tuple(cells[name] for name in made.__code__.co_freevars)
    code_object = _named_alike(made.__code__, function.__name__)
    result = types.FunctionType(code_object, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__ = function.__qualname__
    result.__module__ = function.__module__
    return result


def _named_alike(code: types.CodeType, name: str) -> types.CodeType:
    """Code whose blocks, which are local functions, go by the function's name in tracebacks."""
    inner = tuple(
        _named_alike(c, name) if isinstance(c, types.CodeType) and c.co_name.startswith("__tile_") else c
        for c in code.co_consts
    )
    names: dict[str, Any] = {"co_qualname": name} if hasattr(code, "co_qualname") else {}
    return code.replace(co_name=name, co_consts=inner, **names)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, for_tracing: bool) -> None:
        self.for_tracing = for_tracing
        self.changed = for_tracing
        self.count = 0
        self.is_python_loop = False  # inside a loop that stays Python's, with break, continue or return

    # --- making nodes ------------------------------------------------------------------------------------------------

    def runtime(self, name: str, arguments: list[Any], at: ast.AST) -> Any:
        self.changed = True
        call = ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load()), arguments, [])
        for node in ast.walk(call):
            if not hasattr(node, "lineno") and isinstance(node, (ast.expr, ast.arg)):
                ast.copy_location(node, at)
        return ast.copy_location(call, at)

    def delayed(self, expression: Any) -> Any:
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Lambda(empty, expression), expression)

    def constant(self, value: Any, at: ast.AST) -> Any:
        return ast.copy_location(ast.Constant(value), at)

    def block_function(self, name: str, parameters: list[str], body: list[ast.stmt], at: ast.AST, result: Any) -> Any:
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.copy_location(ast.arg(p), at) for p in parameters],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        statements = [*body, ast.copy_location(ast.Return(result), at)] if result is not None else body
        definition = ast.FunctionDef(
            name=name,
            args=arguments,
            body=statements or [ast.copy_location(ast.Pass(), at)],
            decorator_list=[],
            returns=None,
        )
        definition.type_params = []  # type: ignore[attr-defined]
        return ast.copy_location(definition, at)

    def names(self, names: list[str], at: ast.AST, context: Any) -> Any:
        items: list[Any] = [ast.copy_location(ast.Name(n, context()), at) for n in names]
        return ast.copy_location(ast.Tuple(items, context()), at)

    def values(self, names: list[str], at: ast.AST) -> Any:
        """The present values of variables, unassigned ones too."""
        items: list[Any] = [
            self.runtime(
                "get", [self.constant(n, at), self.delayed(ast.copy_location(ast.Name(n, ast.Load()), at))], at
            )
            for n in names
        ]
        return ast.copy_location(ast.Tuple(items, ast.Load()), at)

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"__tile_{kind}_{self.count}"

    # --- expressions -------------------------------------------------------------------------------------------------

    def _has_assignment(self, node: ast.AST) -> bool:
        return any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for n in ast.walk(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if any(self._has_assignment(v) for v in node.values[1:]):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self.runtime(name, [node.values[0], *[self.delayed(v) for v in node.values[1:]]], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return self.runtime("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 or any(self._has_assignment(v) for v in node.comparators):
            return node
        arguments: list[Any] = [node.left]
        for op, value in zip(node.ops, node.comparators, strict=True):
            arguments += [self.constant(type(op).__name__, value), self.delayed(value)]
        return self.runtime("chain", arguments, node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if not self.for_tracing or self._has_assignment(node.body) or self._has_assignment(node.orelse):
            return node
        return self.runtime("choose", [node.test, self.delayed(node.body), self.delayed(node.orelse)], node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        names = BUILTINS if self.for_tracing else BUILTINS - {"print"}
        if isinstance(node.func, ast.Name) and node.func.id in names:
            node.func = self.runtime("builtin", [node.func], node.func)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.generic_visit(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return self.runtime("value_of", [node.value], node)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.generic_visit(node)
        node.value = self.assigned(node.value, node.target)
        return node

    # --- statements --------------------------------------------------------------------------------------------------

    def assigned(self, value: Any, target: Any) -> Any:
        """What a variable is assigned: a number becomes a scalar of the kernel there."""
        if isinstance(value, _NEVER_NUMBERS) or (isinstance(value, ast.Constant) and not _is_number(value.value)):
            return value
        if self.for_tracing and isinstance(target, ast.Name):
            return self.runtime("assign_named", [value, self.constant(target.id, value)], value)
        return self.runtime("assign", [value], value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if all(isinstance(t, (ast.Name, ast.Tuple)) for t in node.targets):
            node.value = self.assigned(node.value, node.targets[0])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        sum_ = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.assigned(sum_, node.target)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        annotation = ast.unparse(node.annotation)
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        self.generic_visit(node)
        if node.value is not None and isinstance(node.target, ast.Name):
            is_constant = annotation.rsplit(".", 1)[-1].strip("'\"") == "constexpr"
            if is_constant:
                node.value = self.runtime("constant", [node.value], node.value)
            else:
                node.value = self.assigned(node.value, node.target)
        return node

    def function_body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        outer, self.is_python_loop = self.is_python_loop, False
        result = self.block(statements)
        self.is_python_loop = outer
        return result

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for position, statement in enumerate(statements):
            if (
                self.for_tracing
                and not self.is_python_loop
                and isinstance(statement, ast.If)
                and leaves([statement], (ast.Return,))
            ):
                result += self._returning_if(statement, statements[position + 1 :])
                return result
            made = self.visit(statement)
            result += made if isinstance(made, list) else [made] if made is not None else []
        return result

    def _nested_blocks(self, node: Any) -> Any:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.block(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    visit_With = visit_Try = visit_ExceptHandler = _nested_blocks

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.body = self.function_body(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        raise unsupported(node, "async functions")

    def visit_Yield(self, node: ast.Yield) -> Any:
        raise unsupported(node, "generators")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        raise unsupported(node, "generators")

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        message = node.msg if node.msg is not None else self.constant("", node)
        call = self.runtime("assert_", [node.test, self.delayed(message)], node)
        return ast.copy_location(ast.Expr(call), node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        self.generic_visit(node)
        check = ast.Expr(self.runtime("raise_", [], node))
        return [ast.copy_location(check, node), node]

    def visit_If(self, node: ast.If) -> Any:
        if not self.for_tracing:
            return self._nested_blocks(node)
        if self.is_python_loop and leaves([node], EXITS):
            node.test = self.runtime("static_condition", [self.visit(node.test)], node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        names = assigned_names([*node.body, *node.orelse])
        then_name, else_name = self.fresh("then"), self.fresh("else")
        test = self.visit(node.test)
        made: list[Any] = []
        for name, body in ((then_name, node.body), (else_name, node.orelse)):
            outer, self.is_python_loop = self.is_python_loop, False
            made.append(self.block_function(name, names, self.block(body), node, self.values(names, node)))
            self.is_python_loop = outer
        arguments = [
            test,
            *[ast.Name(n, ast.Load()) for n in (then_name, else_name)],
            self.constant(tuple(names), node),
            self.values(names, node),
        ]
        call = self.runtime("if_", arguments, node.test)
        made.append(self._assign(names, call, node))
        return made

    def _assign(self, names: list[str], call: Any, at: ast.AST) -> Any:
        if not names:
            return ast.copy_location(ast.Expr(call), at)
        return ast.copy_location(ast.Assign([self.names(names, at, ast.Store)], call), at)

    def _returning_if(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """An `if` with a return inside: what follows it moves into the branches that go on."""
        import copy

        test = self.visit(node.test)
        made: list[Any] = []
        functions: list[Any] = []
        parameters: list[Any] = []
        for kind, body in (("then", node.body), ("else", node.orelse)):
            statements = list(body) if always_returns(body) else [*body, *copy.deepcopy(rest)]
            names = assigned_names(statements)
            name = self.fresh(kind)
            made.append(self.block_function(name, names, self.block(statements), node, None))
            functions.append(ast.copy_location(ast.Name(name, ast.Load()), node))
            parameters.append(self.values(names, node))
        call = self.runtime("return_if", [test, *functions, *parameters], node.test)
        made.append(ast.copy_location(ast.Return(call), node))
        return made

    def _iterable(self, node: Any) -> Any:
        """`range` gives scalars of the kernel when its bounds are run-time values or the loop is one of the kernel."""
        if isinstance(node, ast.Call):
            node.func = self.runtime("loop", [node.func], node.func)
        return node

    def visit_For(self, node: ast.For) -> Any:
        iterable = self._iterable(self.visit(node.iter))
        stays = bool(node.orelse) or leaves(node.body, EXITS)
        if not self.for_tracing and not stays:
            names = [n for n in assigned_names(node.body) if n not in bound_names(node.target)]
            return self._checked_loop(node, "iter", iterable, names)
        if stays:
            if self.for_tracing:
                iterable = self.runtime("unrolled", [iterable], node.iter)
                outer, self.is_python_loop = self.is_python_loop, True
            node.iter = iterable
            node.body = self.block(node.body)
            if self.for_tracing:
                self.is_python_loop = outer
            node.orelse = self.block(node.orelse)
            return node
        targets = bound_names(node.target)
        names = [n for n in assigned_names(node.body) if n not in targets]
        item = self.fresh("item")
        bind: Any = ast.copy_location(
            ast.Assign([node.target], ast.copy_location(ast.Name(item, ast.Load()), node)), node
        )
        function = self.fresh("body")
        outer, self.is_python_loop = self.is_python_loop, False
        body = [bind, *self.block(node.body)]
        self.is_python_loop = outer
        made: list[Any] = [
            self.block_function(function, [item, *names], body, node, self.values([*names, *targets], node))
        ]
        arguments = [
            iterable,
            ast.Name(function, ast.Load()),
            self.constant(tuple(names), node),
            self.values(names, node),
            self.constant(tuple(targets), node),
        ]
        call = self.runtime("for_", arguments, node.iter)
        made.append(self._assign([*names, *targets], call, node))
        return made

    def _checked_loop(self, node: Any, field: str, subject: Any, names: list[str]) -> Any:
        """A loop of the interpreter, which looks after each turn at the variables that a compiled loop carries."""
        turns = self.fresh("turns")
        at = getattr(node, field)
        begin = self.runtime("checked_turns", [self.constant(tuple(names), at), self.values(names, at)], at)
        start = ast.copy_location(ast.Assign([ast.copy_location(ast.Name(turns, ast.Store()), at)], begin), at)
        setattr(node, field, self._call_of(turns, field, subject, at))
        check = ast.Expr(self._call_of(turns, "end", self.values(names, at), at))
        node.body = [*self.block(node.body), ast.copy_location(check, at)]
        return [start, node]

    def _call_of(self, variable: str, method: str, argument: Any, at: Any) -> Any:
        function = ast.Attribute(ast.copy_location(ast.Name(variable, ast.Load()), at), method, ast.Load())
        return ast.copy_location(ast.Call(ast.copy_location(function, at), [argument], []), at)

    def visit_While(self, node: ast.While) -> Any:
        names = assigned_names([*node.body, ast.copy_location(ast.Expr(node.test), node)])
        if not self.for_tracing:
            if node.orelse or leaves(node.body, EXITS):
                return self._nested_blocks(node)
            return self._checked_loop(node, "test", self.visit(node.test), names)
        if node.orelse or leaves(node.body, EXITS):
            turns = self.fresh("turns")
            counter: Any = ast.copy_location(ast.Name(turns, ast.Store()), node)
            start = ast.copy_location(ast.Assign([counter], self.runtime("turns", [], node)), node)
            read = ast.copy_location(ast.Name(turns, ast.Load()), node.test)
            node.test = self.runtime("static_turn", [self.visit(node.test), read], node.test)
            outer, self.is_python_loop = self.is_python_loop, True
            node.body = self.block(node.body)
            self.is_python_loop = outer
            node.orelse = self.block(node.orelse)
            return [start, node]
        test_name, body_name = self.fresh("test"), self.fresh("body")
        outer, self.is_python_loop = self.is_python_loop, False
        made: list[Any] = [
            self.block_function(test_name, names, [], node.test, self.visit(node.test)),
            self.block_function(body_name, names, self.block(node.body), node, self.values(names, node)),
        ]
        self.is_python_loop = outer
        arguments = [
            ast.Name(test_name, ast.Load()),
            ast.Name(body_name, ast.Load()),
            self.constant(tuple(names), node),
            self.values(names, node),
        ]
        made.append(self._assign(names, self.runtime("while_", arguments, node.test), node))
        return made
