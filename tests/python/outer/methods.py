"""The methods in the forms that tests run: one table, which every conformance test iterates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from holdfast import ft

H = 6

Make = Callable[[nn.Module, torch.optim.Optimizer, Any], ft.Trainer]


def _streaming(fragments: int, delay: int, **more: Any) -> Make:
    return lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=fragments, delay=delay, **more
    )


def _async(mode: str, fragments: int, delay: int, **more: Any) -> Make:
    return lambda m, i, g: ft.AsyncDiLoCo(
        m, i, g, inner_steps=H, mode=mode, fragments=fragments, delay=delay, **more
    )


METHODS: dict[str, Make] = {
    "local sgd": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H),
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H),
    "diloco, adam": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, outer=ft.OuterAdam(0.02)),
    "diloco, int8": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, codec="int8"),
    "diloco, auto": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, codec="auto(bf16,int8,int4)"),
    "diloco, donor": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, inner_state="donor"),
    "sparse": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=H, ratio=0.03),
    "co2": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H),
    "co2, bare": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, penalty=False, clip=None),
    "co2, 3 fragments, delay 4": lambda m, i, g: ft.CO2(
        m, i, g, inner_steps=H, fragments=3, delay=4
    ),
    "eager, 2, 4": _async("eager", 2, 4),
    "delayed, 2, 4": _async("delayed", 2, 4),
    "streaming, average": _streaming(2, 1, outer=ft.OuterSGD()),
}
for _fragments in (1, 3):
    for _delay in (0, 3, H - 1):
        METHODS[f"streaming, {_fragments}, {_delay}"] = _streaming(_fragments, _delay)
    for _delay in (1, H):
        METHODS[f"eager, {_fragments}, {_delay}"] = _async("eager", _fragments, _delay)
        METHODS[f"delayed, {_fragments}, {_delay}"] = _async("delayed", _fragments, _delay)

# Whose rounds have so many samples over all members.
BATCHED: dict[str, Make] = {
    "local sgd": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H, global_batch=100),
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, global_batch=400),
    "sparse": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=H, global_batch=100),
    "streaming": lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=3, delay=3, global_batch=1000
    ),
    "eager": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H, global_batch=44),
    "eager, pace": lambda m, i, g: ft.AsyncDiLoCo(
        m, i, g, inner_steps=H, global_batch=400, pace=True
    ),
    "co2": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, fragments=2, delay=4, global_batch=50),
}


def model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    return net.to(dtype)


def batch(rank: int, step: int, dtype: torch.dtype = torch.float32, count: int = 16) -> Any:
    """Samples of four classes: patterns under noise."""
    patterns = torch.randn(4, 8, generator=torch.Generator().manual_seed(3), dtype=dtype)
    chance = torch.Generator().manual_seed(1 + 1000 * step + rank)
    y = torch.randint(4, (count,), generator=chance)
    return patterns[y] + 0.3 * torch.randn(count, 8, generator=chance, dtype=dtype), y


def local_step(trainer: ft.Trainer, net: nn.Module, rank: int, step: int) -> float:
    x, y = batch(rank, step, next(net.parameters()).dtype, trainer.next_batch(16))
    trainer.inner.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    trainer.step(samples=len(y))
    return loss.item()


def bits(trainer: ft.Trainer) -> bytes:
    """Of what is shared."""
    flat = [p.reshape(-1) for p in trainer.shared_parameters().values()]
    return torch.cat(flat).numpy().tobytes()
