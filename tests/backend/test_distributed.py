"""Two processes, over gloo or over NCCL on two devices, train a transformer by DDP and by FSDP2, losses as in eager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.compiling import BACKEND, IS_TILE, ROOT

WORLD = 2


DEVICES = [
    pytest.param("cpu", marks=pytest.mark.slow),
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason="needs two CUDA devices")],
    ),
]


@pytest.mark.timeout(400)
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_training_follows_eager(kind: str, where: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "backend" / "distributed_worker.py")]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(WORLD), str(tmp_path / "store"), kind, BACKEND, where],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    try:
        finished = [worker.communicate(timeout=380) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (out, err) in zip(workers, finished, strict=True):
        assert worker.returncode == 0, f"{out[-2000:]}\n{err[-4000:]}"
        row = json.loads(out.splitlines()[-1])
        assert row["compiled"] == pytest.approx(row["eager"], rel=1e-4)
        if IS_TILE:
            assert row["counts"]["graphs"] >= 2 and row["counts"].get("fallbacks", 0) == 0
