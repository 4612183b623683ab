"""Functional collectives of two processes over gloo, of operands that do not lie row by row."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import compiled

if not torch.distributed.is_available():
    pytest.skip("torch is built without torch.distributed", allow_module_level=True)

import torch.distributed._functional_collectives as collectives

WORLD = 2
# A result that is read before the collective has ended is wrong only if there is much to send.
ROWS, COLUMNS = 300, 400


def _all(x: torch.Tensor) -> list[torch.Tensor]:
    group = torch.distributed.group.WORLD
    results = [
        collectives.all_reduce(x, "sum", group),
        *collectives.all_reduce_coalesced([x + 1, x], "sum", group),
        *collectives.all_gather_into_tensor_coalesced([x + 1, x], group),
        collectives.all_gather_tensor(x, 0, group),
        collectives.reduce_scatter_tensor(x, "sum", 0, group),
        collectives.all_to_all_single(x, None, None, group),
        collectives.broadcast(x, 0, group),
    ]
    return [result * 2 for result in results]


def _transposed(x: torch.Tensor) -> list[torch.Tensor]:
    return _all(x.t())


def _permuted(x: torch.Tensor) -> list[torch.Tensor]:
    return _all(x.view(10, -1, x.shape[1]).permute(2, 0, 1))


def _computed(x: torch.Tensor) -> list[torch.Tensor]:
    return _all((x * 3).t())


def _work(rank: int, store: str, failures: Any) -> None:
    try:
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
        for f in (_transposed, _permuted, _computed):
            function = compiled(f)
            for seed in range(3):
                torch.manual_seed(WORLD * seed + rank)
                x = torch.randn(ROWS, COLUMNS)
                for k, (result, expected) in enumerate(zip(function(x), f(x), strict=True)):
                    assert result.stride() == expected.stride(), (f.__name__, k, result.stride(), expected.stride())
                    torch.testing.assert_close(result, expected, msg=f"{f.__name__} {k}")
        torch.distributed.destroy_process_group()
    except BaseException:
        failures.put(traceback.format_exc())


@pytest.mark.timeout(200)
def test_operands_that_do_not_lie_row_by_row(tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("spawn")
    failures = context.SimpleQueue()
    workers = [context.Process(target=_work, args=(rank, str(tmp_path / "store"), failures)) for rank in range(WORLD)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(150)
        worker.kill()
    assert failures.empty(), failures.get()
    assert all(worker.exitcode == 0 for worker in workers)
