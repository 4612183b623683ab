"""Locks of the process when it forks."""

from __future__ import annotations

import os
import threading


def lock_across_forks() -> threading.Lock:
    """A lock that a fork waits for, so that a child finds it free and what it guards whole."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
