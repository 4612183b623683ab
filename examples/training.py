"""Training: a small network and its optimizer, both compiled.

The forward is compiled at the first call, the backward when the first gradient is requested. The step of the optimizer
becomes a few kernels. Dropout draws another random stream than eager mode, so losses of the two differ.

Run: python examples/training.py
"""

import torch


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    compiled = torch.compile(model, backend="tile")

    @torch.compile(backend="tile")
    def optimizer_step() -> None:
        optimizer.step()

    losses = []
    for step in range(30):
        x = torch.randn(64, 16)
        target = x.square().mean(1, keepdim=True)
        loss = torch.nn.functional.mse_loss(compiled(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer_step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")
    print(f"loss at the end: {losses[-1]:.4f}")
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    main()
