"""Sorting short rows: one kernel in place of a library call."""
