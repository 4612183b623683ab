"""Passes of the user's on FX graphs: where they run, what they may do, and what of it is kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.custom_graph_pass import (
    CustomGraphModulePass,
    CustomGraphPass,
    CustomInferenceAwareGraphPass,
)

import torch_tile
import torch_tile.language as tl
from tests.compiling import assert_same, compiled, count, fresh, tile_only
from torch_tile import config

pytestmark = tile_only
aten = torch.ops.aten


class Replace(CustomGraphPass):
    """Replaces one operator by another."""

    def __init__(self, old: Any, new: Any, name: str | None = None) -> None:
        self.old, self.new, self.name = old, new, name
        self.num_calls = self.num_replaced = 0

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.num_calls += 1
        for node in graph.nodes:
            if node.target == self.old:
                node.target = self.new
                self.num_replaced += 1

    def uuid(self) -> str | None:
        return self.name


def sine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


AT_ATEN = ("joint_pass", "joint_post_pass", "post_grad_pass", "post_grad_post_pass")


@pytest.mark.parametrize("name", ["pre_grad_pass", *AT_ATEN])
def test_inference(name: str) -> None:
    old, new = (torch.sin, torch.cos) if name == "pre_grad_pass" else (aten.sin.default, aten.cos.default)
    replace = Replace(old, new)
    x = torch.randn(5, 6)
    with torch.no_grad():
        assert_same(compiled(sine, **{name: replace})(x), torch.cos(x) * 2)
    assert (replace.num_calls, replace.num_replaced) == (1, 1)
    assert count("kernels") == 1


@pytest.mark.parametrize("name", ["pre_grad_pass", *AT_ATEN])
def test_training(name: str) -> None:
    """A pass on the joint graph sees the backward's operators, one behind it sees each graph."""
    old, new = (torch.sin, torch.cos) if name == "pre_grad_pass" else (aten.sin.default, aten.cos.default)
    replace = Replace(old, new)
    x = torch.randn(5, requires_grad=True)
    compiled(sine, **{name: replace})(x).sum().backward()
    if name == "pre_grad_pass":
        assert_same(x.grad, -2 * torch.sin(x.detach()))
    else:
        assert_same(x.grad, 2 * torch.cos(x.detach()))
        assert replace.num_calls == (1 if name.startswith("joint") else 2)


def test_names_of_inductor_and_lists() -> None:
    first, second = Replace(aten.sin.default, aten.cos.default), Replace(aten.cos.default, aten.tanh.default)
    x = torch.randn(5)
    assert_same(compiled(sine, post_grad_custom_pre_pass=[first, second])(x), torch.tanh(x) * 2)


def test_forms_of_inductor() -> None:
    seen: list[Any] = []

    class OfModule(CustomGraphModulePass):
        def __call__(self, gm: torch.fx.GraphModule) -> None:
            seen.append(type(gm))

        def uuid(self) -> str:
            return "module"

    class Aware(CustomInferenceAwareGraphPass):
        def __call__(self, graph: torch.fx.Graph, is_inference: bool) -> None:
            seen.append(is_inference)

        def uuid(self) -> str:
            return "aware"

    compiled(sine, post_grad_pass=[OfModule(), Aware()])(torch.randn(3))
    assert issubclass(seen[0], torch.fx.GraphModule) and seen[1] is True
    compiled(sine, post_grad_pass=Aware())(torch.randn(3, requires_grad=True))
    assert seen[2] is False


def test_freezing() -> None:
    model = torch.nn.Linear(4, 4).eval()
    replace = Replace(aten.sin.default, aten.cos.default)
    x = torch.randn(3, 4)
    with torch.no_grad():
        function = compiled(lambda x: torch.sin(model(x)), freezing=True, post_grad_pass=replace)
        assert_same(function(x), torch.cos(model(x)))
        assert_same(function(x), torch.cos(model(x)))


def test_new_nodes_get_results_and_change_those_behind_them() -> None:
    def to_double(graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is aten.sin.default:
                with graph.inserting_after(node):
                    wide = graph.call_function(torch.ops.prims.convert_element_type.default, (node, torch.float64))
                node.replace_all_uses_with(wide, delete_user_cb=lambda user, wide=wide: user is not wide)

    x = torch.randn(5)
    assert_same(compiled(sine, post_grad_pass=to_double)(x), torch.sin(x).double() * 2)


@torch_tile.jit
def scaled_add(x_ptr, y_ptr, o_ptr, n, SCALE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(o_ptr + i, SCALE * tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


def by_kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    # 100 where the pattern has 3, so that the test sees which of the two ran.
    scaled_add[(torch_tile.cdiv(x.numel(), 64),)](x, y, o, x.numel(), SCALE=100.0, B=64)
    return o


@pytest.mark.parametrize("name", ["pre_grad_pass", "joint_pass", "post_grad_pass"])
def test_a_pattern_becomes_a_kernel_of_the_tile_language(name: str) -> None:
    def replace(graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            product = node.args[0] if node.op == "call_function" and "add" in str(node.target) else None
            if isinstance(product, torch.fx.Node) and "mul" in str(product.target) and product.args[1] == 3.0:
                with graph.inserting_before(node):
                    node.replace_all_uses_with(graph.call_function(by_kernel, (product.args[0], node.args[1])))
                graph.erase_node(node)
                graph.erase_node(product)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.sin(x) * 3.0 + y)

    x, y = torch.randn(7, 33), torch.randn(7, 33)
    function = compiled(f, **{name: replace})
    for _ in range(2):
        assert_same(function(x, y), torch.relu(100 * torch.sin(x) + y), rtol=1e-5, atol=1e-5)
    assert count("kernels") == 3 and count("externs") == count("pycalls") == 0


# Failures


def test_a_pass_that_raises_is_named() -> None:
    def broken(graph: torch.fx.Graph) -> None:
        next(iter(graph.nodes)).replace_all_uses_with(graph.output_node())
        raise ZeroDivisionError("my mistake")

    x = torch.randn(3)
    for name in ("pre_grad_pass", "joint_pass", "post_grad_pass"):
        fresh()
        with pytest.raises(Exception, match=rf"broken \(option '{name}'\) raised ZeroDivisionError: my mistake"):
            compiled(sine, **{name: broken})(x)
        fresh()
        with pytest.warns(UserWarning, match=rf"broken \(option '{name}'\) raised ZeroDivisionError"):
            assert_same(torch.compile(sine, backend="tile", options={name: broken})(x), sine(x))
        assert count("fallbacks") == 1


def test_what_is_no_pass_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'joint_pass' expected a callable that takes a torch.fx.Graph, a list"):
        torch.compile(sine, backend="tile", options={"joint_pass": 3})


# Caches


def test_keys(cache_dir: Path, traced: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """One entry for each uuid; without a uuid none, which is said."""
    x = torch.randn(4)
    kinds = (
        ("sin", None),
        ("sin", None),
        ("one", aten.cos.default),
        ("one", aten.cos.default),
        ("two", aten.tanh.default),
    )
    expected = [True, False, True, False, True]
    for (name, new), is_traced in zip(kinds, expected, strict=True):
        fresh()
        traced.clear()
        replace = Replace(aten.sin.default, new or aten.sin.default, name)
        assert_same(compiled(sine, joint_pass=replace)(x), (new or aten.sin.default)(x) * 2)
        assert bool(traced) == is_traced, (name, traced)
    with caplog.at_level(logging.WARNING, logger="torch_tile"):
        config._said.clear()
        for _ in range(2):
            fresh()
            traced.clear()
            compiled(sine, joint_pass=Replace(aten.sin.default, aten.cos.default))(x)
            assert traced
    said = [r.getMessage() for r in caplog.records if "uuid" in r.getMessage()]
    assert len(said) == 1 and "Replace" in said[0], said
