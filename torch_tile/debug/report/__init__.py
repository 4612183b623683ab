"""One HTML page on what was compiled and how long it took: `python -m torch_tile report`."""
