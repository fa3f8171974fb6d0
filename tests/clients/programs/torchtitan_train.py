"""torchtitan's debug model of Llama 3 under FSDP2, by torchtitan's own entry point.

What torchtitan has no option for is told from outside: that the device is the CPU (it falls back to
"cuda" where there is no accelerator), with a number and without statistics of memory, and which
backend torch has for it, where torchtitan looks the name up. Its tokenizer and its text, which lie
in its repository and not in its package, are made here.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import record
import torch
import torch._utils
import torch.distributed as dist

dist.Backend.default_device_backend_map["cpu"] = record.BACKEND
torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.current_device = lambda: 0
if not hasattr(dist, "set_timeout"):  # its name in the torch that torchtitan is made for
    dist.set_timeout = dist.distributed_c10d._set_pg_timeout

import torchtitan.train  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from torch.distributed.fsdp import FSDPModule  # noqa: E402
from torchtitan.components import metrics  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

RANK = int(os.environ["RANK"])
WORDS = ["a", "rank", "is", "lost", "and", "the", "others", "go", "on", "to", "its", "end"]


def assets() -> None:
    """Write what the debug model's configuration names, into the working directory."""
    vocabulary = {word: i for i, word in enumerate(["<unk>", "<s>", "</s>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = Path("tests/assets/tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    draw = random.Random(3)
    texts = ({"text": " ".join(draw.choices(WORDS, k=100))} for _ in range(400))
    data = Path("tests/assets/c4_test")
    data.mkdir(exist_ok=True)
    (data / "data.json").write_text("".join(json.dumps(text) + "\n" for text in texts))


class NoStatistics:
    """Stands in for torchtitan's monitor, which asks the device for what a CPU does not have."""

    device_name = "CPU"

    def get_peak_stats(self) -> metrics.DeviceMemStats:
        return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

    def reset_peak_stats(self) -> None:
        pass


def observe() -> None:
    """Tell the loss that torchtitan logs, and die at the beginning of a step."""
    train, train_step, log = Trainer.train, Trainer.train_step, metrics.MetricsProcessor.log

    def observed_train(self: Trainer) -> None:
        for module in self.model_parts[0].modules():
            # gloo has no premultiplied sum, which torchtitan's FSDP asks for: as the other to
            # compare with it gets a sum, and a division of its own.
            if record.BACKEND == "gloo" and isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)
        record.tell(RANK, begins=self.step)
        train(self)

    def observed_step(self: Trainer, batches: object) -> None:
        record.die_if_due(RANK, self.step - 1)
        train_step(self, batches)

    def observed_log(
        self: metrics.MetricsProcessor, step: int, loss: float, *rest: object, **more: object
    ) -> None:
        record.tell_step(RANK, step - 1, loss)
        log(self, step, loss, *rest, **more)

    Trainer.train, Trainer.train_step = observed_train, observed_step
    metrics.MetricsProcessor.log = observed_log


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    own = Path(os.environ["CLIENT_OUT"]).resolve() / f"work{RANK}"
    own.mkdir(exist_ok=True)
    os.chdir(own)
    # As each rank has a folder of its own, so has its cache of the data.
    os.environ["HF_HOME"] = str(own / "cache")
    assets()
    metrics.build_device_memory_monitor = NoStatistics
    observe()
    sys.argv += ["--module", "torchtitan_config", "--config", "debugmodel_on_cpu"]
    try:
        torchtitan.train.main()
    except BaseException as error:
        record.tell_error(RANK, error)
        raise
    record.tell(RANK, end=True)


if __name__ == "__main__":
    main()
