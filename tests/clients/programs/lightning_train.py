"""Lightning's Trainer, whose strategy is told the backend's name; validation and a checkpoint."""

from __future__ import annotations

import os
import sys

import lightning
import record
import torch
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader, Dataset

NAME = sys.argv[1]


class Batches(Dataset):
    """A rank's batches by their number; Lightning is kept from dealing them out."""

    def __init__(self, rank: int, first: int, count: int) -> None:
        self.rank, self.first, self.count = rank, first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return record.batch(self.rank, self.first + i)


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = record.model()

    def configure_model(self) -> None:
        if NAME == "fsdp2":
            from torch.distributed.fsdp import fully_shard

            mesh = self.device_mesh["data_parallel"]
            for layer in self.net:
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, mesh=mesh)
            fully_shard(self.net, mesh=mesh)

    def training_step(self, both: tuple[Tensor, Tensor], i: int) -> Tensor:
        record.die_if_due(self.global_rank, i)
        loss = nn.functional.cross_entropy(self.net(both[0]), both[1])
        record.tell_step(self.global_rank, i, loss.detach())
        return loss

    def validation_step(self, both: tuple[Tensor, Tensor], _: int) -> None:
        loss = nn.functional.cross_entropy(self.net(both[0]), both[1])
        self.log("val_loss", loss, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Batches(self.global_rank, 0, record.STEPS), batch_size=None)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(Batches(self.global_rank, 500, 2), batch_size=None)


def strategy() -> DDPStrategy | FSDPStrategy | ModelParallelStrategy:
    if NAME == "ddp":
        return DDPStrategy(process_group_backend=record.BACKEND)
    if NAME == "fsdp":
        return FSDPStrategy(process_group_backend=record.BACKEND)
    ranks = int(os.environ["CLIENT_RANKS"])
    return ModelParallelStrategy(
        data_parallel_size=ranks, tensor_parallel_size=1, process_group_backend=record.BACKEND
    )


def main() -> None:
    torch.set_num_threads(1)
    lightning.seed_everything(1, verbose=False)
    module = Classifier()
    trainer = None
    try:
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=int(os.environ["CLIENT_RANKS"]),
            strategy=strategy(),
            max_epochs=1,
            use_distributed_sampler=False,
            logger=False,
            default_root_dir=os.environ["CLIENT_OUT"],
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        trainer.fit(module)
    except BaseException as error:
        record.tell_error(int(os.environ.get("LOCAL_RANK", "0")), error)
        raise
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in module.parameters()]
    validated = float(trainer.callback_metrics["val_loss"])
    record.tell_end(trainer.global_rank, whole, val_loss=validated)


if __name__ == "__main__":
    main()
