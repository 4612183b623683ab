"""Calls of saved graphs: refused where the graph is not right for the arguments; options and parameters are kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import torch_tile
from tests.backend.test_artifacts import X, captured
from tests.compiling import assert_same, count, fresh, gradients, tile_only
from torch_tile.errors import ArtifactError

pytestmark = tile_only
if not torch.__version__.startswith("2.13."):
    pytest.skip("entries of AOTAutograd are kept with torch 2.13", allow_module_level=True)


def both(artifact: torch_tile.CompiledArtifact, path: Path) -> list[torch_tile.CompiledArtifact]:
    """The artifact, and what is loaded of it in a process that has compiled nothing."""
    artifact.save(path=path)
    fresh()
    return [artifact, torch_tile.CompiledArtifact.load(path=path)]


def all_but_last(x: torch.Tensor) -> tuple[torch.Tensor]:
    """A capture with plain sizes has the number of rows as a constant."""
    return (x[0 : x.shape[0] - 1] * 2,)


@pytest.mark.parametrize("dynamic_shapes", ["from_graph", "from_example_inputs"])
def test_static_sizes(tmp_path: Path, dynamic_shapes: Literal["from_graph", "from_example_inputs"]) -> None:
    gm = captured(all_but_last, X)
    made = torch_tile.standalone_compile(gm, [X], dynamic_shapes=dynamic_shapes)
    for artifact in both(made, tmp_path / "artifact"):
        assert_same(list(artifact(X)), list(all_but_last(X)))
        for arguments, error, message in (
            ((torch.ones(6, 7),), ValueError, r"compiled for inputs with x_1.size\(\)\[0\] == 5; `x_1` is \[6, 7\]"),
            ((torch.ones(7, 5).t(),), ValueError, r"x_1.stride\(\)\[0\] == 7; `x_1` is .* with strides \[1, 5\]"),
            ((X.double(),), TypeError, "input `x_1` expected a tensor of float32 with 2 dimensions, got .* float64"),
            ((X.to_sparse(),), TypeError, "got a tensor of float32 with 2 dimensions and layout torch.sparse_coo"),
            ((X[0],), TypeError, "input `x_1` expected .* 2 dimensions, got .* 1 dimensions"),
            ((), TypeError, r"expected 1 inputs \(x_1\), got 0"),
            ((X, X), TypeError, r"expected 1 inputs \(x_1\), got 2"),
            ((X.tolist(),), TypeError, "input `x_1` expected .*, got list"),
            ((X.clone().requires_grad_(),), RuntimeError, "input `x_1` needs a gradient, and the graph was compiled w"),
        ):
            with pytest.raises(error, match=message):
                artifact(*arguments)
        with torch.no_grad():
            assert_same(list(artifact(X.clone().requires_grad_())), list(all_but_last(X)))


def test_strides_of_one_element(tmp_path: Path) -> None:
    x = torch.randn(1, 7)
    for artifact in both(torch_tile.standalone_compile(captured(lambda x: (x * 2,), x), [x]), tmp_path / "artifact"):
        assert_same(artifact(torch.arange(7.0).reshape(7, 1).t())[0], torch.arange(0.0, 14, 2).reshape(1, 7))


def test_integers(tmp_path: Path) -> None:
    gm = captured(lambda x, n: (x * n,), X, 3)
    for artifact in both(torch_tile.standalone_compile(gm, [X, 3]), tmp_path / "artifact"):
        assert_same(artifact(X, 3)[0], X * 3)
        with pytest.raises(ValueError, match="compiled for inputs with n_1 == 3; `n_1` is 4"):
            artifact(X, 4)
        with pytest.raises(TypeError, match="input `n_1` expected an integer, got a tensor"):
            artifact(X, X)


def test_structures_of_outputs(tmp_path: Path) -> None:
    x = X.clone().requires_grad_()
    functions: list[Callable[[torch.Tensor], Any]] = [
        lambda x: (x.sin(), {"a": x * 2}),
        lambda x: [x.sin(), [(x * 2,), {"b": [x.cos(), None, 3], "c": ()}]],
        lambda x: {"a": x * 2, "b": (x, x.t())},
        lambda x: ((x.sin(),),),
    ]
    for function in functions:
        gm = captured(function, X)
        before = str(gm.graph)
        for artifact in both(torch_tile.standalone_compile(gm, [x]), tmp_path / "artifact"):
            results = artifact(x)
            assert_same(results, function(x))
            assert pytree.tree_structure(results) == pytree.tree_structure(function(x))
            assert gradients(artifact, [x])[-1] is not None and count("fallbacks") == 0
        assert str(gm.graph) == before


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_named_tuples_of_outputs(tmp_path: Path) -> None:
    """Their class is known to the process that compiles the graph alone."""
    artifact = torch_tile.standalone_compile(captured(lambda x: (x.sin(), Pair(x * 2, x + 1)), X), [X])
    assert isinstance(artifact(X)[1], Pair) and count("fallbacks") == 0
    with pytest.raises(ArtifactError, match=r"the structure of its outputs cannot be kept: .*Pair"):
        artifact.save(path=tmp_path / "artifact")


@pytest.mark.parametrize("is_fake", [False, True])
def test_guards_on_dynamic_sizes(tmp_path: Path, is_fake: bool) -> None:
    def branch(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        return (x * 2 + y,) if x.shape[0] % 2 == 0 else (x * 3 + y,)

    inputs: list[Any] = [torch.randn(4, 7), torch.randn(4, 7)]
    gm = captured(branch, *inputs, dynamic=True)
    if is_fake:
        inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    for artifact in both(torch_tile.standalone_compile(gm, inputs), tmp_path / "artifact"):
        for rows, columns in ((4, 7), (6, 3), (2, 2)):
            x = torch.randn(rows, columns)
            assert_same(list(artifact(x, x)), list(branch(x, x)))
        with pytest.raises(ValueError, match=r"x_1.size\(\)\[0\] % 2\) == 0; `x_1` is \[5, 7\]"):
            artifact(torch.randn(5, 7), torch.randn(5, 7))
        with pytest.raises(ValueError, match=r"y_1.size\(\)\[0\] == x_1.size\(\)\[0\]"):
            artifact(torch.randn(4, 7), torch.randn(6, 7))


def test_example_inputs_that_do_not_fit() -> None:
    gm = captured(all_but_last, X)
    inputs: Any
    for inputs, got in (
        *(([], "0"), ([X, X], "2"), (X, "a tensor")),
        *((None, "NoneType"), (3, "int"), ({"x": X}, "dict"), ("x", "str")),
    ):
        with pytest.raises(ValueError, match=rf"example_inputs expected a list of 1 values \(x_1\), got {got}"):
            torch_tile.standalone_compile(gm, inputs)
    with pytest.raises(ValueError, match=r"example_inputs expected a list of 1 values .*, got NoneType"):
        torch_tile.standalone_compile(gm, None, dynamic_shapes="from_example_inputs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="example input `x_1` expected a tensor, got str"):
        torch_tile.standalone_compile(gm, ["x"])


def scaled(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.relu(x @ (w * 2).clamp(-1, 1)),)


@torch.no_grad()
def test_freezing(tmp_path: Path) -> None:
    """The artifact has the prologue, and the parameters come with the first call."""
    w = torch.nn.Parameter(torch.randn(7, 9))
    gm = captured(scaled, X, w)
    made = torch_tile.standalone_compile(gm, [X, w], options={"freezing": True})
    for artifact in both(made, tmp_path / "artifact"):
        assert_same(list(artifact(X, w)), list(scaled(X, w)))
        w.add_(0.1)
        assert_same(list(artifact(X, w)), list(scaled(X, w)))
        for _ in range(10):
            other = torch.nn.Parameter(torch.randn(7, 9))
            assert_same(list(artifact(X, other)), list(scaled(X, other)))


def test_options_of_calls_are_kept(tmp_path: Path) -> None:
    gm = captured(lambda x: (x.log(),), X)
    made = torch_tile.standalone_compile(gm, [X], options={"nan_asserts": True})
    for artifact in both(made, tmp_path / "artifact"):
        with pytest.raises(AssertionError, match=r"nan_asserts: result 0 of graph .* \(inference\) holds NaN"):
            artifact(X)
    x, index = torch.ones(4, 3), torch.zeros(4, 3, dtype=torch.long)
    gm = captured(lambda x, i: (torch.ops.aten.put(x, i, x),), x, index)
    made = torch_tile.standalone_compile(gm, [x, index], options={"deterministic": True})
    for artifact in both(made, tmp_path / "artifact"):
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            artifact(x, index)
        assert not torch.are_deterministic_algorithms_enabled()


def test_debug_does_not_keep_from_saving(tmp_path: Path, set_config: Any) -> None:
    set_config(torch._dynamo.config, "debug_dir_root", str(tmp_path / "debug"))
    made = torch_tile.standalone_compile(captured(all_but_last, X), [X], options={"debug": True})
    for artifact in both(made, tmp_path / "artifact"):
        assert_same(list(artifact(X)), list(all_but_last(X)))


class Shifted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(7, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.linear(x) + self.count,)


def counting(module: torch.nn.Module) -> torch.fx.GraphModule:
    """A graph that holds its parameters, and writes a buffer."""
    gm = torch.fx.symbolic_trace(module)
    (node,) = (each for each in gm.graph.nodes if each.op == "get_attr" and each.target == "count")
    with gm.graph.inserting_after(node):
        gm.graph.call_method("add_", (node, 1))
    gm.recompile()
    return gm


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("options", [{}, {"freezing": True}])
def test_parameters_of_the_graph(tmp_path: Path, needs_grad: bool, options: dict[str, Any]) -> None:
    expected = counting(Shifted())
    with torch.set_grad_enabled(needs_grad):
        artifact = torch_tile.standalone_compile(copy.deepcopy(expected), [X], options=options)
        loaded = [artifact]
        formats: tuple[Literal["binary", "unpacked"], ...] = ("binary", "unpacked")
        for format in formats:
            artifact.save(path=tmp_path / format, format=format)
            fresh()
            loaded.append(torch_tile.CompiledArtifact.load(path=tmp_path / format, format=format))
            assert count("graphs") == count("graphs_from_disk") > 0
        for each in loaded:
            eager = copy.deepcopy(expected)
            for _ in range(3):
                found = each(X)[0]
                assert_same(found, eager(X)[0])
                assert found.requires_grad == needs_grad


def test_one_tensor_twice() -> None:
    """A program that writes neither takes it, with the gradients of both."""
    gm = make_fx(lambda x, y: (x * 2 + y.sin(),), tracing_mode="fake")(torch.randn(3), torch.randn(3))
    artifact = torch_tile.standalone_compile(gm, [torch.randn(3).requires_grad_(), torch.randn(3).requires_grad_()])
    x = torch.randn(3, requires_grad=True)
    (result,) = artifact(x, x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, 2 + x.detach().cos())
