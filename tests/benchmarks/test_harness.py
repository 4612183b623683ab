"""The benchmarks' harness: what counts as a right result, the best alternative, pictures."""

from __future__ import annotations

import json
import math
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def _rows(**cases: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"suite": "s", "case": case, "backend": backend, "median": seconds, "best": seconds, "note": ""}
        for case, times in cases.items()
        for backend, seconds in times.items()
    ]


def test_best_alternative_is_no_variant_of_ours() -> None:
    import comparison

    times = {
        "tile": 2.0,
        "tile-no-pool": 1.0,
        "aot_eager": 0.5,
        "inductor": 4.0,
        "inductor-max-autotune": 3.0,
        "eager": 9.0,
    }
    assert comparison.best_alternative(times) == "inductor-max-autotune"
    assert comparison.best_alternative({"tile": 1.0, "tile-aten": 1.0}) is None
    rows = [*_rows(a=times), {**_rows(b={"tile": 1.0})[0], "note": "wrong result: x"}]
    assert comparison.medians(rows) == {"a": times}
    assert comparison.others(rows) == ["inductor", "inductor-max-autotune", "eager"]


def test_written_arguments_count_as_results() -> None:
    from harness import Case, run_case
    from reference import in_double, outcome

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + y

    arguments = [torch.ones(4), torch.ones(4, dtype=torch.int64)]
    expected, written = outcome(step, in_double(arguments))
    assert written == [0] and expected[0].dtype is torch.float64 and expected[1].tolist() == [2.0] * 4
    assert arguments[0].tolist() == [1.0] * 4  # the reference has tensors of its own

    def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            x.mul_(2)
            return x + y
        return x * 2 + y  # right, but x is not written

    make = lambda: (wrong, [torch.ones(4), torch.ones(4)])  # noqa: E731
    [row] = run_case("s", Case("c", make), ["eager"], rounds=1)
    assert row.note.startswith("wrong result") and math.isnan(row.median)


def test_dropout_is_checked_by_its_law() -> None:
    from reference import dropout_differs

    torch.manual_seed(0)
    x, residual = torch.randn(1 << 16), torch.randn(1 << 16)
    right = torch.nn.functional.dropout(x, 0.1) + residual
    assert dropout_differs([x, residual], [right]) == ""
    assert "neither" in dropout_differs([x, residual], [right * 1.01])
    assert "expected 0.1" in dropout_differs([x, residual], [torch.where(torch.rand(1 << 16) < 0.5, residual, right)])


def test_variants_compile_and_set_what_belongs_to_the_process() -> None:
    import backends

    import torch_tile

    x = torch.randn(3, 3)
    for name in ("tile-no-pool", "tile-aten", "tile"):
        backends.enter(name)
        assert (torch_tile.config.get("buffer_limit_bytes") == 0) == (name == "tile-no-pool")
        function = backends.compiled(lambda x: torch.relu(x @ x), name, dynamic=False)
        torch.testing.assert_close(function(x), torch.relu(x @ x))
    assert backends.find("inductor-max-autotune").mode == "max-autotune"


def test_pictures_are_sorted_and_name_all(tmp_path: Path) -> None:
    import plot

    rows = _rows(slow={"tile": 2.0, "eager": 1.0}, fast={"tile": 1.0, "eager": 9.0}, same={"tile": 1.0, "eager": 1.0})
    text = plot.dots(rows)
    xml.fromstring(text)
    places = [text.index(f">{name}<") for name in ("fast", "same", "slow")]
    assert places == sorted(places)
    assert "median row 1.00" in text and ">9.00<" in text and ">0.50<" in text
    xml.fromstring(plot.bars(_rows(cold={"tile": 1.3, "inductor": 9.0})))
    (tmp_path / "r.json").write_text(json.dumps({"rows": [{**row, "suite": "compile_time"} for row in rows]}))
    sys.argv = ["plot.py", str(tmp_path / "r.json"), "--svg", str(tmp_path / "r.svg")]
    assert plot.main() == 0 and "First call in a fresh process" in (tmp_path / "r.svg").read_text()
