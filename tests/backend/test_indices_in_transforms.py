"""Integer tensors of no dimension as indices under `vmap` and `grad` and in bodies of higher-order operators; failures
inside a level of functorch's.
"""

import pytest
import torch
from torch.func import grad, jacrev, vmap
from torch.utils.checkpoint import checkpoint

from tests.compiling import tile_only

X, PLACES = torch.arange(15.0).view(5, 3), torch.tensor([1, 2, 0, 1, 2])
ONE = torch.tensor(2)


def zeroed(y, i):
    y = y.clone()
    y[i] = 0.0
    return y


region = torch.compiler.nested_compile_region(lambda x, i: x * x[i])

PROGRAMS = {
    "index of each sample": (lambda x, i: vmap(lambda y, j: y[j])(x, i), (X, PLACES)),
    "with a new dimension": (lambda x, i: vmap(lambda y, j: y[j, None])(x, i), (X, PLACES)),
    "index of the largest": (lambda x: vmap(lambda r: r[r.argmax()])(x), (X,)),
    "samples are indices": (lambda x: vmap(lambda k: x[k])(torch.arange(3)), (X,)),
    "written at each sample's index": (lambda x, i: vmap(zeroed)(x, i), (X, PLACES)),
    "one index for all samples": (lambda x, i: vmap(lambda y: y[i] * 2)(x), (X, ONE)),
    "written at one index": (lambda x, i: vmap(lambda y: zeroed(y, i))(x), (X, ONE)),
    "gradient of a read": (lambda x, i: grad(lambda y: (y[i] * y).sum())(x), (X[0], ONE)),
    "gradient of a write": (lambda x, i: grad(lambda y: zeroed(y, i).square().sum())(x), (X[0], ONE)),
    "rows of a Jacobian": (lambda x, i: jacrev(lambda y: zeroed(y, i))(x), (X[0], ONE)),
    "region": (lambda x, i: region(region(x, i), i), (X[:3], ONE)),
    "checkpoint": (lambda x, i: checkpoint(lambda x, i: x * x[i], x, i, use_reentrant=False), (X[:3], ONE)),
    "map": (lambda x, i: torch._higher_order_ops.map(lambda y: y * y[i], x), (X, ONE)),
    "refused inside vmap": (lambda x: vmap(lambda y: y.clone().fill_diagonal_(1.0))(x), (X.view(1, 5, 3) + 1,)),
}


# Eager mode has no gradients of `map` with such an index.
CASES = [(name, gradients) for name in PROGRAMS for gradients in (False, True) if not (gradients and name == "map")]


@pytest.mark.parametrize("name,with_gradients", CASES)
def test_indices(name, with_gradients):
    program, arguments = PROGRAMS[name]
    torch.compiler.reset()
    made = [a.clone().requires_grad_(with_gradients) if a.is_floating_point() else a for a in arguments]
    expected = program(*made)
    result = torch.compile(program, backend="tile")(*made)  # some graphs are broken, as with other backends
    torch.testing.assert_close(result, expected)
    if with_gradients and expected.requires_grad:
        torch.testing.assert_close(
            torch.autograd.grad(result.sum(), made[0]), torch.autograd.grad(expected.sum(), made[0])
        )


@pytest.mark.parametrize("name", ["checkpoint", "map"])
def test_whole_graph(name):
    """`fullgraph=True` is kept: what is not compiled runs in eager mode."""
    program, arguments = PROGRAMS[name]
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(program, backend="tile", fullgraph=True)(*arguments), program(*arguments))


@tile_only
def test_no_level_is_left():
    """A compile that fails inside of vmap: the graph runs in eager mode, outside of any level."""
    program, arguments = PROGRAMS["refused inside vmap"]
    with pytest.warns(UserWarning, match="runs in eager mode"):
        result = torch.compile(program, backend="tile")(*arguments)
    assert torch.equal(result, program(*arguments))
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
