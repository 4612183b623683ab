"""Inference: compile a transformer layer, compare it with eager mode, and time both.

The first call traces and compiles. Later calls with equal shapes run the compiled program. Under `torch.no_grad()`
nothing is saved for a backward.

Run: python examples/inference.py
"""

import time

import torch


def milliseconds(fn, x: torch.Tensor, calls: int = 20) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        fn(x)
    return (time.perf_counter() - start) / calls * 1e3


def main() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True).eval()
    compiled = torch.compile(layer, backend="tile")
    x = torch.randn(4, 64, 128)

    with torch.no_grad():
        start = time.perf_counter()
        y = compiled(x)
        print(f"first call: {time.perf_counter() - start:.2f} s")
        torch.testing.assert_close(y, layer(x), rtol=1e-4, atol=1e-4)
        print(f"eager:      {milliseconds(layer, x):.2f} ms")
        print(f"tile:       {milliseconds(compiled, x):.2f} ms")


if __name__ == "__main__":
    main()
