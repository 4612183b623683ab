"""A kernel in the tile language: softmax over rows, in the interpreter, compiled, and inside torch.compile.

A program of the grid computes one row. The interpreter runs the kernel in Python and checks every address. Inside
`torch.compile` the kernel becomes part of the compiled program.

Run: python examples/tile_kernel.py
"""

import torch

import torch_tile
import torch_tile.language as tl


@torch_tile.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, out, columns, BLOCK=torch_tile.next_power_of_2(columns))
    return out


def main() -> None:
    x = torch.randn(8, 100)
    expected = x.softmax(1)
    out = torch.empty_like(x)
    softmax_kernel.interpret[(8,)](x, out, 100, BLOCK=128)
    torch.testing.assert_close(out, expected)
    print("interpreted: right")
    torch.testing.assert_close(softmax(x), expected)
    print("compiled: right")
    doubled = torch.compile(lambda x: softmax(x) * 2, backend="tile", fullgraph=True)
    torch.testing.assert_close(doubled(x), expected * 2)
    print("inside torch.compile: right")
    print(softmax_kernel[(8,)](x, out, 100, BLOCK=128).asm["tile"].splitlines()[0][:70])


if __name__ == "__main__":
    main()
