"""The examples' tasks, and one whose gradients are worth a network."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from tasks import TASKS, Digits  # noqa: E402

__all__ = ["TASKS", "WideDigits"]


class WideDigits(Digits):
    """The digits by a network of 2.1 million parameters: 8.4 MB of gradients, most of them of one matrix."""

    batch, lr = 32, 1e-3

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return nn.Sequential(
            nn.Conv2d(1, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4096, 512),
            nn.ReLU(),
            nn.Linear(512, 10),
        )

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr, fused=True)
