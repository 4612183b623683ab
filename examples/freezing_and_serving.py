"""Freezing and serving: parameters as constants, and requests from several threads.

`freezing` folds batch norm into the convolution and packs weights. A program is shared by all threads. Requests have
two sizes; both are compiled before traffic arrives. Most changes of parameters are noticed. The exceptions, such as
writes through `.data` or NumPy, are in docs/guides/freezing.md.

Run: python examples/freezing_and_serving.py
"""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).eval()
    serve = torch.compile(model, backend="tile", options={"freezing": True}, dynamic=False)
    sizes = (16, 32)

    @torch.no_grad()
    def answer(size: int) -> bool:
        x = torch.randn(1, 3, size, size)
        return torch.allclose(serve(x), model(x), rtol=1e-4, atol=1e-5)

    for size in sizes:
        answer(size)  # warm up: one compile for each size
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(answer, [sizes[i % 2] for i in range(40)]))
    print(f"{sum(answers)} of {len(answers)} answers equal eager mode's")

    with torch.no_grad():
        model[5].weight.mul_(2)
    right = answer(16)
    print("after a changed parameter:", "right" if right else "wrong")
    assert all(answers) and right


if __name__ == "__main__":
    main()
