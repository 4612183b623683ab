"""Runs kernels of the tile language in Python, on numpy values, with every address checked.

Nothing here knows the language: types are seen through their `carrier`, `memory` and `itemsize`.
"""
