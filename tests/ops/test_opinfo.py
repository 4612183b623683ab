"""torch's operator database under the backend: forward, gradient, layouts, empty tensors, dynamic sizes, as in eager.

One operator in twenty-four runs in the fast tier, with few samples; all of them in the slow one. `sweep.py` beside it
runs the database in worker processes and writes down what came of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.compiling import IS_TILE
from tests.ops import coverage, opinfo
from tests.ops.opinfo_expected import EXPECTED, reason_for

OPERATORS = opinfo.operators()
FAST_KINDS = ("forward", "gradient")


def is_fast(name: str) -> bool:
    return zlib.crc32(name.encode()) % 24 == 0


def _parameters(is_fast_tier: bool) -> list[Any]:
    chosen = [op for op in OPERATORS if is_fast(opinfo.name_of(op)) or not is_fast_tier]
    return [pytest.param(op, id=opinfo.name_of(op)) for op in chosen]


def _failures(op: Any, kinds: Sequence[str], samples: int) -> Iterator[str]:
    name, page = opinfo.name_of(op), coverage.read_page().get(opinfo.name_of(op), {})
    for dtype in opinfo.pairs(op):
        short = str(dtype).removeprefix("torch.")
        for kind in kinds:
            outcome = opinfo.check(op, dtype, kind, samples)
            expected = reason_for(name, short, kind)
            if outcome.status not in ("ok", "skipped") and expected is None:
                yield f"{short} {kind}: {outcome.status}: {outcome.message}"
            if outcome.status == "ok" and (name, short, kind) in EXPECTED and IS_TILE:
                yield f"{short} {kind} passes: take it out of opinfo_expected.py"
            is_listed = kind == "forward" and short in coverage.DTYPES
            if is_listed and IS_TILE and kinds == FAST_KINDS and outcome.status == "ok":
                # The page comes of more samples, so it may say less than these few show, but not more.
                what = coverage.classify(vars(outcome))
                if short not in page or (page[short] == "generated" and what != "generated"):
                    yield f"{short}: docs/generated/op-coverage.md says {page.get(short)}, it is {what}"


@pytest.mark.parametrize("op", _parameters(True))
def test_equals_eager(op: Any) -> None:
    failures = list(_failures(op, FAST_KINDS, 2))
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.database
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("op", _parameters(False))
def test_equals_eager_in_every_kind(op: Any) -> None:
    failures = list(_failures(op, opinfo.KINDS, 4))
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
