"""Every operator case. Data only: `test_ops.py` runs each check over each of them."""

from __future__ import annotations

from tests.ops import cases_composite, cases_pointwise, cases_reductions, cases_views, cases_writes
from tests.ops.case import OpCase

CASES: list[OpCase] = [
    *cases_pointwise.CASES,
    *cases_views.CASES,
    *cases_reductions.CASES,
    *cases_composite.CASES,
    *cases_writes.CASES,
]
BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES), "case names are not distinct"
