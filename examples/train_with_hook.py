"""Train a small model in two processes whose gradients are compressed on every hop of a ring.

    torchrun --nproc-per-node 2 examples/train_with_hook.py

The two lines that lightloom adds to an ordinary DDP script are the import and ``exchange.attach``.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange

STEPS = 20


def main() -> None:
    """Train for a few steps, and print on rank 0 how the loss falls and how small the gradients are."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)))
    state = exchange.attach(model, "inceptionn:bound=2^-10", adaptive=False)  # once, before the first backward pass
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if dist.get_rank() == 0:
        ratio = state.statistics.total.ratio
        print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}; gradients {ratio:.1f} times smaller on the wire")
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
