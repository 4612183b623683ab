"""Dynamic shapes: one compile serves every batch size and length.

`dynamic=True` compiles with symbols for sizes from the first call on. `mark_dynamic` does so for one dimension. The
counter of Dynamo shows how many graphs were compiled.

Run: python examples/dynamic_shapes.py
"""

import torch
from torch._dynamo.utils import counters


def normalize(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)


def graphs_compiled(fn, inputs: list[torch.Tensor]) -> int:
    counters.clear()
    for x in inputs:
        torch.testing.assert_close(fn(x), normalize(x), rtol=1e-4, atol=1e-5)
    return counters["stats"]["unique_graphs"]


def main() -> None:
    inputs = [torch.randn(rows, 96) for rows in (3, 17, 200, 64)]
    for dynamic in (False, None, True):
        torch.compiler.reset()
        count = graphs_compiled(torch.compile(normalize, backend="tile", dynamic=dynamic), inputs)
        print(f"dynamic={dynamic}: {count} graphs for {len(inputs)} batch sizes")
    torch.compiler.reset()
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 0)
    count = graphs_compiled(torch.compile(normalize, backend="tile"), inputs)
    print(f"mark_dynamic: {count} graphs")
    assert count == 1


if __name__ == "__main__":
    main()
