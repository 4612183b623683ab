"""DTensors in a group of one process: a graph takes their device meshes, which are no tensors, and hands them on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import torch_tile
from tests.compiling import assert_same, compiled, fresh

if not torch.distributed.is_available():
    pytest.skip("torch is built without torch.distributed", allow_module_level=True)

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


@pytest.fixture(scope="module")
def mesh() -> Iterator[DeviceMesh]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_of_several_calls(mesh: DeviceMesh, dynamic: bool) -> None:
    fresh()
    function = compiled(lambda a, b: (a.sin() + b, a, (a * b).sum(1)), dynamic=dynamic)
    for rows in (4, 4, 6):
        a, b = (distribute_tensor(torch.randn(rows, 5), mesh, [Shard(0)]) for _ in range(2))
        results = function(a, b)
        assert results[1] is a and all(result.device_mesh is mesh for result in results)
        expected = (a.sin() + b, a, (a * b).sum(1))
        assert_same([r.to_local() for r in results], [e.to_local() for e in expected])
        assert [r.placements for r in results] == [e.placements for e in expected]


def test_writes_to_an_argument(mesh: DeviceMesh) -> None:
    def f(a: DTensor, b: torch.Tensor) -> tuple[DTensor, torch.Tensor]:
        a.mul_(2)
        b.add_(a.to_local().sum())
        return a + 1, b * 2

    local, b = torch.randn(4, 5), torch.randn(3)
    results = []
    for function in (f, compiled(f)):
        a, c = distribute_tensor(local.clone(), mesh, [Shard(0)]), b.clone()
        x, y = function(a, c)
        results.append((x.to_local(), y, a.to_local(), c))
    assert_same(results[1], results[0])


def test_gradients(mesh: DeviceMesh) -> None:
    def f(x: torch.Tensor, w: DTensor) -> torch.Tensor:
        product = DTensor.from_local(x, mesh, [Replicate()], run_check=False) @ w
        return product.tanh().redistribute(mesh, [Replicate()]).to_local()

    fresh()
    function = compiled(f)
    full = torch.randn(6, 4)
    for _ in range(2):
        x, gradients = torch.randn(3, 6), []
        for call in (f, function):
            w = torch.nn.Parameter(distribute_tensor(full, mesh, [Shard(1)]))
            call(x, w).square().sum().backward()
            assert isinstance(w.grad, DTensor) and w.grad.device_mesh is mesh
            gradients.append(w.grad.to_local())
        assert_same(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
    assert torch_tile.counters["fallbacks"] == 0
