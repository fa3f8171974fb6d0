"""torchtitan's configuration of its debug model of Llama 3, with what a CPU and torch 2.13 need."""

from __future__ import annotations

import os
from pathlib import Path

import record
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.trainer import Trainer


def debugmodel_on_cpu() -> Trainer.Config:
    config = llama3_debugmodel()
    # FlexAttention, the default, has no backward on a CPU.
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    # The default wants a torch newer than 2.13.
    config.parallelism.spmd_backend = "partial_dtensor"
    config.training.steps = record.STEPS
    config.training.local_batch_size = 2
    config.training.seq_len = 64
    config.debug.seed = 1
    config.dump_folder = str(Path(os.environ["CLIENT_OUT"]).resolve() / "dump")
    config.checkpoint.enable = True
    config.checkpoint.interval = 4
    return config
