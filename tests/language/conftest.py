"""Every kernel of these tests runs interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

WAYS = ["interpret", "compile"]


def has_compiler() -> bool:
    from torch_tile import _C

    return hasattr(_C, "make_launcher")


@pytest.fixture(params=WAYS)
def launch(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """launch(kernel)[grid](*args)"""
    if request.param == "interpret":
        return lambda kernel: kernel.interpret
    if not has_compiler():
        pytest.skip("this build has no launcher for single kernels")
    return lambda kernel: kernel
