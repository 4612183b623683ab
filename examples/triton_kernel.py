"""A Triton kernel on the CPU, unchanged: addition with a mask, launched directly and inside torch.compile.

torch-tile registers itself as Triton's backend for the CPU. The backend is active where no GPU driver is.

Run: python examples/triton_kernel.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


def main() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    torch.testing.assert_close(add(x, y), x + y)
    print("launched: right")
    compiled = torch.compile(lambda x, y: add(x, y).relu(), backend="tile", fullgraph=True)
    torch.testing.assert_close(compiled(x, y), (x + y).relu())
    print("inside torch.compile: right")


if __name__ == "__main__":
    main()
