"""Fault tolerance for training: trainers that seldom communicate, state, and `health`.

A trainer (`DiLoCo` and its kin) does many local steps, and then an outer step over the members, who
may come and go. `health` finds out who hangs, died or is slow. Importing this package does not
import torch; using a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.ft.data.sampler import DataLedger
    from holdfast.ft.outer.async_diloco import AsyncDiLoCo
    from holdfast.ft.outer.co2 import CO2
    from holdfast.ft.outer.diloco import DiLoCo
    from holdfast.ft.outer.local_sgd import LocalSGD
    from holdfast.ft.outer.optimizers import OuterAdam, OuterNesterov, OuterOptimizer, OuterSGD
    from holdfast.ft.outer.report import OuterStep
    from holdfast.ft.outer.rounds import Event, Rounds
    from holdfast.ft.outer.run_state import load_run, save_run
    from holdfast.ft.outer.site import Site
    from holdfast.ft.outer.sparse_loco import SparseLoCo
    from holdfast.ft.outer.streaming import StreamingDiLoCo
    from holdfast.ft.outer.trainer import Trainer
    from holdfast.ft.state.dcp.reader import StateReader
    from holdfast.ft.state.dcp.writer import StateWriter
    from holdfast.ft.state.layout.rng import rng
    from holdfast.ft.state.restart import Restart, restartable
    from holdfast.ft.state.snapshots import Snapshots

__all__ = [
    "CO2",
    "AsyncDiLoCo",
    "DataLedger",
    "DiLoCo",
    "Event",
    "LocalSGD",
    "OuterAdam",
    "OuterNesterov",
    "OuterOptimizer",
    "OuterSGD",
    "OuterStep",
    "Restart",
    "Rounds",
    "Site",
    "Snapshots",
    "SparseLoCo",
    "StateReader",
    "StateWriter",
    "StreamingDiLoCo",
    "Trainer",
    "load_run",
    "restartable",
    "rng",
    "save_run",
]

_ON_FIRST_USE = {
    "AsyncDiLoCo": "async_diloco",
    "CO2": "co2",
    "DataLedger": "data.sampler",
    "DiLoCo": "diloco",
    "Event": "rounds",
    "LocalSGD": "local_sgd",
    "OuterAdam": "optimizers",
    "OuterNesterov": "optimizers",
    "OuterOptimizer": "optimizers",
    "OuterSGD": "optimizers",
    "OuterStep": "report",
    "Restart": "state.restart",
    "Rounds": "rounds",
    "Site": "site",
    "Snapshots": "state.snapshots",
    "SparseLoCo": "sparse_loco",
    "StateReader": "state.dcp.reader",
    "StateWriter": "state.dcp.writer",
    "StreamingDiLoCo": "streaming",
    "Trainer": "trainer",
    "load_run": "run_state",
    "restartable": "state.restart",
    "rng": "state.layout.rng",
    "save_run": "run_state",
}


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = _ON_FIRST_USE[name]
    module = where if "." in where else f"outer.{where}"
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
