"""What `learning.py` has its methods learn: a character model, digits, and a GRU on source text.

Batches come from (seed, step, rank): a rank that is started again draws what it would have drawn.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Protocol

import torch
from torch import nn

CONTEXT, BATCH = 16, 32
# Characters of a sample of source text.
LENGTH = 32


class Task(Protocol):
    """Data, a model for it, and what the model is worth."""

    def model(self, seed: int) -> nn.Module: ...
    def batch(self, seed: int, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]: ...
    def judge(self, net: nn.Module) -> dict[str, float]: ...


def _chance(seed: int, step: int, rank: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 10**6 + step) * 64 + rank)


@dataclass
class Characters:
    """The next character of the texts of `pydoc_data.topics`, from those before it."""

    training: torch.Tensor
    validation: torch.Tensor
    kinds: int

    @classmethod
    def load(cls) -> Characters:
        whole = "\n".join(topics[name] for name in sorted(topics))
        kinds = {c: i for i, c in enumerate(sorted(set(whole)))}
        numbers = torch.tensor([kinds[c] for c in whole])
        cut = len(numbers) * 9 // 10
        return cls(numbers[:cut], numbers[cut:], len(kinds))

    def model(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Embedding(self.kinds, 24),
            nn.Flatten(),
            nn.Linear(CONTEXT * 24, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, self.kinds),
        )

    def batch(self, seed: int, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._draw(self.training, BATCH, _chance(seed, step, rank))

    def judge(self, net: nn.Module) -> dict[str, float]:
        """Validation loss, nats per character."""
        x, y = self._draw(self.validation, 20_000, torch.Generator().manual_seed(0))
        with torch.no_grad():
            return {"loss": round(float(nn.functional.cross_entropy(net(x), y)), 4)}

    @staticmethod
    def _draw(
        numbers: torch.Tensor, count: int, chance: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(len(numbers) - CONTEXT - 1, (count, 1), generator=chance)
        window = numbers[at + torch.arange(CONTEXT + 1)]
        return window[:, :-1], window[:, -1]


@dataclass
class Digits:
    """scikit-learn's handwritten digits; pixels that are zero in all pictures have no gradient."""

    pictures: torch.Tensor
    numbers: torch.Tensor
    cut: int

    @classmethod
    def load(cls) -> Digits:
        from sklearn.datasets import load_digits  # the extra `learning`

        found = load_digits()
        order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
        pictures = torch.tensor(found.data, dtype=torch.float32)[order] / 16
        assert int((pictures.amax(0) == 0).sum()) > 0, "no pixel is zero everywhere"
        return cls(pictures, torch.tensor(found.target)[order], len(order) * 3 // 4)

    def model(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def batch(self, seed: int, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(self.cut, (BATCH,), generator=_chance(seed, step, rank))
        return self.pictures[at], self.numbers[at]

    def judge(self, net: nn.Module) -> dict[str, float]:
        """Loss, and percent of the test pictures that are read right."""
        x, y = self.pictures[self.cut :], self.numbers[self.cut :]
        with torch.no_grad():
            out = net(x)
        right = float((out.argmax(1) == y).float().mean()) * 100
        loss = float(nn.functional.cross_entropy(out, y))
        return {"loss": round(loss, 4), "right": round(right, 2)}


class Recurrent(nn.Module):
    """A GRU that says each next character of its text."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(kinds, 48)
        self.memory = nn.GRU(48, 128, batch_first=True)
        self.says = nn.Linear(128, kinds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # One row for each character, as for a sample of other tasks.
        said: torch.Tensor = self.says(self.memory(self.embedding(x))[0])
        return said.flatten(0, 1)


@dataclass
class Source:
    """The next characters of the standard library's modules, of the Python that runs."""

    training: torch.Tensor
    validation: torch.Tensor
    kinds: int

    @classmethod
    def load(cls) -> Source:
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        texts = [file.read_bytes().decode("ascii", "ignore") for file in files]
        kinds = {c: i for i, c in enumerate(sorted(set("".join(texts))))}
        # Every tenth file is for validation: the last ones alone are of few subjects.
        parts = ["".join(t for i, t in enumerate(texts) if (i % 10 > 0) == own) for own in (1, 0)]
        training, validation = (torch.tensor([kinds[c] for c in part]) for part in parts)
        return cls(training, validation, len(kinds))

    def model(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return Recurrent(self.kinds)

    def batch(self, seed: int, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._draw(self.training, BATCH, _chance(seed, step, rank))

    def judge(self, net: nn.Module) -> dict[str, float]:
        """Validation loss, nats per character."""
        x, y = self._draw(self.validation, 1000, torch.Generator().manual_seed(0))
        with torch.no_grad():
            return {"loss": round(float(nn.functional.cross_entropy(net(x), y)), 4)}

    @staticmethod
    def _draw(
        numbers: torch.Tensor, count: int, chance: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(len(numbers) - LENGTH - 1, (count, 1), generator=chance)
        window = numbers[at + torch.arange(LENGTH + 1)]
        return window[:, :-1], window[:, 1:].flatten()


TASKS: dict[str, Callable[[], Task]] = {
    "characters": Characters.load,
    "digits": Digits.load,
    "source": Source.load,
}
