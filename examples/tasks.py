"""What the examples learn, from data that needs no download.

digits: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, by a small convolutional network.
text: the next character of the sources of Python's standard library, by a small transformer.

A batch is a function of (seed, step, rank), so a resumed training goes on with the batches that it would have had.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

MODULES = (
    "argparse ast calendar configparser difflib doctest inspect mailbox optparse pdb pydoc statistics tarfile typing"
)


class Digits:
    """Batches of images. Quality is the share of test images that are recognised."""

    quality, higher_is_better, steps, lr, batch = "test accuracy", True, 200, 0.05, 16

    def __init__(self, seed: int = 0):
        from sklearn.datasets import load_digits

        data = load_digits()
        images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
        labels = torch.tensor(data.target)
        order = torch.randperm(len(images), generator=generator(0))  # the same test images for every seed
        self.seed = seed
        self.test = images[order[:360]], labels[order[:360]]
        self.train = images[order[360:]], labels[order[360:]]

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr, momentum=0.9)

    def loss(self, model: nn.Module, step: int, rank: int) -> torch.Tensor:
        images, labels = self.train
        chosen = torch.randint(len(images), (self.batch,), generator=generator(self.seed, step, rank))
        return cross_entropy(model(images[chosen]), labels[chosen])

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        images, labels = self.test
        return (model(images).argmax(1) == labels).double().mean().item()


class Text:
    """Batches of pieces of text. Quality is the cross-entropy of the next character, in bits, on text kept aside."""

    quality, higher_is_better, steps, lr, batch, context = "test bits a character", False, 200, 0.01, 8, 64

    def __init__(self, seed: int = 0):
        folder = Path(sysconfig.get_paths()["stdlib"])
        text = b"".join((folder / f"{name}.py").read_bytes() for name in MODULES.split())
        codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        codes = torch.where((codes >= 32) & (codes < 127), codes - 31, 0)  # 96 characters; 0 for line ends and others
        self.seed = seed
        cut = len(codes) - 50_000
        self.train, self.held = codes[:cut], codes[cut:]

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return Transformer(96, 64, 4, 2, self.context)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr)

    def loss(self, model: nn.Module, step: int, rank: int) -> torch.Tensor:
        return self._loss(model, self.train, self.batch, generator(self.seed, step, rank))

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        return self._loss(model, self.held, 128, generator(0)).item() / 0.6931471805599453

    def _loss(self, model: nn.Module, codes: torch.Tensor, batch: int, random: torch.Generator) -> torch.Tensor:
        starts = torch.randint(len(codes) - self.context, (batch, 1), generator=random)
        piece = codes[starts + torch.arange(self.context + 1)]
        return cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())


class Transformer(nn.Module):
    """Characters in, logits of the next character out; looks back only."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, context: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.1 * torch.randn(context, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context), persistent=False)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.embedding(codes) + self.position
        for block in self.blocks:
            x = block(x, src_mask=self.mask, is_causal=True)
        return self.head(x)


TASKS = {"digits": Digits, "text": Text}


def generator(*numbers: int) -> torch.Generator:
    """Random numbers that depend on these numbers alone."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (1 << 61)
    return torch.Generator().manual_seed(seed)
