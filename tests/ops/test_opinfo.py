"""torch's operator database under the backend: forward, gradient, layouts, empty tensors, dynamic sizes, as in eager.

One operator in twelve runs in the fast tier, with few samples; all of them in the slow one. `sweep.py` beside it runs
the database in worker processes and writes down what came of it.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

from tests.compiling import IS_TILE
from tests.ops import coverage, opinfo
from tests.ops.opinfo_expected import EXPECTED, reason_for

OPERATORS = opinfo.operators()


def is_fast(name: str) -> bool:
    return zlib.crc32(name.encode()) % 12 == 0


def _parameters() -> list[Any]:
    beyond = [pytest.mark.slow, pytest.mark.database]
    return [
        pytest.param(op, id=opinfo.name_of(op), marks=[] if is_fast(opinfo.name_of(op)) else beyond) for op in OPERATORS
    ]


@pytest.mark.parametrize("op", _parameters())
@pytest.mark.timeout(600)
def test_equals_eager(op: Any, request: pytest.FixtureRequest) -> None:
    name = opinfo.name_of(op)
    is_full = os.environ.get("TIER") == "full"
    kinds = opinfo.KINDS if is_full else ("forward", "gradient")
    failures, page = [], coverage.read_page().get(name, {})
    for dtype in opinfo.pairs(op):
        short = str(dtype).removeprefix("torch.")
        for kind in kinds:
            outcome = opinfo.check(op, dtype, kind, 4 if is_full else 2)
            expected = reason_for(name, short, kind)
            if outcome.status not in ("ok", "skipped") and expected is None:
                failures.append(f"{short} {kind}: {outcome.status}: {outcome.message}")
            if outcome.status == "ok" and (name, short, kind) in EXPECTED and IS_TILE:
                failures.append(f"{short} {kind} passes: take it out of opinfo_expected.py")
            if kind == "forward" and IS_TILE and not is_full and outcome.status == "ok":
                # The page comes of more samples, so it may say less than these few show, but not more.
                what = coverage.classify(vars(outcome))
                if short not in page or (page[short] == "generated" and what != "generated"):
                    failures.append(f"{short}: docs/generated/op-coverage.md says {page.get(short)}, it is {what}")
    assert not failures, "\n".join(failures)


def test_expected_failures_name_operators() -> None:
    """The table has no entry that nothing matches."""
    names = {opinfo.name_of(op) for op in OPERATORS}
    assert {op for op, _, _ in EXPECTED} <= names


def test_coverage_page_lists_every_operator() -> None:
    """A new torch, or a database that lost operators, shows here."""
    with_dtypes = {opinfo.name_of(op) for op in OPERATORS if opinfo.pairs(op)}
    listed = set(coverage.read_page())
    assert len(with_dtypes - listed) < 0.1 * len(with_dtypes), sorted(with_dtypes - listed)
