"""Ten layers of 16 x 16 on a CUDA device: microseconds a call, by mode and backend."""

import sys
import time

import torch

weights = [torch.randn(16, 16, device="cuda") * 0.2 for _ in range(10)]


def function(x: torch.Tensor) -> torch.Tensor:
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


def microseconds(call, x: torch.Tensor) -> float:
    for _ in range(20):
        call(x)
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(200):
            call(x)
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 200)
    return best * 1e6


x = torch.randn(16, 16, device="cuda")
with torch.no_grad():
    print(f"eager: {microseconds(function, x):.1f} us")
    for backend in sys.argv[1].split(","):
        for mode in ("default", "reduce-overhead"):
            torch.compiler.reset()
            try:
                print(
                    f"{backend} {mode}: {microseconds(torch.compile(function, backend=backend, mode=mode), x):.1f} us"
                )
            except Exception as error:
                print(f"{backend} {mode}: {type(error).__name__} {str(error)[:300]}")
