"""Schedules that the model chooses for a GPU, by what each thread and each warp would hold and write."""

from __future__ import annotations

import math
import re

import torch

from tests.gpu.simulated_graphs import compile_for_gpu, schedules


def number(schedule: str, name: str, default: int = 1) -> int:
    found = re.search(rf"\b{name} (\d+)", schedule)
    return int(found[1]) if found else default


def test_sums_of_a_thread_fit_its_registers() -> None:
    """81 sums of products in one loop: four elements of each in a thread went through memory, in ten times the time."""

    def correlation(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pad(y, (4, 4, 4, 4))
        shifted = [y[:, :, i : i + 96, j : j + 128] for i in range(9) for j in range(9)]
        return torch.stack([(x * each).mean(1) for each in shifted], 1)

    x = torch.empty(16, 64, 96, 128)
    text = compile_for_gpu(correlation, x, x)["30-tile.mlir"]
    most = 0
    for kernel in text.split("tile.kernel")[1:]:
        (schedule,) = schedules({"30-tile.mlir": kernel})
        results = kernel.count("tile.store") if "reduce" in schedule else 0
        per_thread = number(schedule, "lanes") * number(schedule, "rows") / number(schedule, "threads")
        under_way = 1 + math.ceil(math.log2(number(schedule, "unroll")))
        assert results * math.ceil(per_thread) * under_way <= 255, schedule
        most = max(most, results)
    assert most > 30


def test_rows_that_are_written_element_by_element() -> None:
    """A warp writes up to eight lines of 128 bytes at a time: stores of more are not put together."""

    def normalized(q: torch.Tensor) -> torch.Tensor:
        w, x, y, z = torch.nn.functional.normalize(q, dim=-1).unbind(-1)
        columns = [w * x, w * y, w * z, x * y, x * z, y * z, w - x, y - z, w + z]
        return torch.stack(columns, -1)

    (schedule,) = schedules(compile_for_gpu(normalized, torch.empty(1 << 22, 4)))
    elements = number(schedule, "lanes") * number(schedule, "rows")
    rows_of_warp = elements / 4 * 32 / number(schedule, "threads") if "vector axis r0" in schedule else 32
    assert rows_of_warp * 9 * 4 <= 8 * 128, schedule


def test_updates_of_one_place_are_neighbours() -> None:
    """Pairs that are added where an index says: both of a pair are in one sector, so neighbouring lanes add them."""

    def deposit(grid: torch.Tensor, cell: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        for k in range(4):
            grid = grid.index_add(0, (cell + k) % 1024, x * (k + 1))
        return grid

    n = 1 << 16
    text = compile_for_gpu(deposit, torch.zeros(1024, 2), torch.zeros(n, dtype=torch.int64), torch.zeros(n, 2))
    (schedule,) = [s for s in schedules(text) if f"= {n}" in s]
    (pair,) = re.findall(r"(\w+) = 2[,\]]", schedule)
    assert f"vector axis {pair} lanes 2 row axis" in schedule


def test_gathers_of_short_blocks_start_often() -> None:
    """A multiprocessor starts a block in 85 ns: with blocks of 64 threads this took 88 us, with larger ones 48."""

    def pages(keys: torch.Tensor, table: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return keys[table].float().mul(scale).to(torch.bfloat16)

    keys, table = torch.zeros(2048, 16, 8, 128, dtype=torch.int8), torch.zeros(64, 64, dtype=torch.int64)
    (schedule,) = schedules(compile_for_gpu(pages, keys, table, torch.zeros(128)))
    assert number(schedule, "threads", 32) * number(schedule, "programs per block") >= 128


def test_axes_that_are_taken_apart_cost_once() -> None:
    """A roll of short axes reads both of its parts at the same place of one flat axis: 72 us, along its axes 111."""
    x = torch.empty_strided((1000, 1024, 2, 16, 2), (65536, 16, 16384, 1, 32768), dtype=torch.bfloat16)
    (schedule,) = schedules(compile_for_gpu(lambda x: x.roll(1, 3) * 2, x))
    assert "vector axis flat" in schedule
