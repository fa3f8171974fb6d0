"""Memory that does not suffice is said before anything is reserved, by host, with bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.errors import ConfigError
from holdfast.ft.state.keeper import memory
from holdfast.ft.state.room import refuse_too_much, to_come, with_slack

GIB = 1 << 30


def tree(here: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return here


@pytest.mark.parametrize(
    ("groups", "files", "left"),
    [
        # Version 2: what is cached of files can be had again, and an outer group counts, too.
        (
            "0::/job/rank0\n",
            {
                "job/memory.max": f"{4 * GIB}\n",
                "job/memory.current": f"{3 * GIB}\n",
                "job/memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file 0\n",
                "job/rank0/memory.max": "max\n",
            },
            2 * GIB,
        ),
        (
            "0::/\n",
            {"memory.max": "1000\n", "memory.current": "5000\n", "memory.stat": "anon 5000\n"},
            0,
        ),
        # Version 1.
        (
            "9:name=systemd:/x\n4:memory:/job\n0::/\n",
            {
                "memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
                "memory/job/memory.usage_in_bytes": f"{GIB}\n",
                "memory/job/memory.stat": "inactive_file 0\n",
            },
            GIB,
        ),
        ("0::/job\n", {}, None),
    ],
)
def test_a_control_group_leaves_what_it_and_its_outer_ones_leave(
    tmp_path: Path, groups: str, files: dict[str, str], left: int | None
):
    names = tree(tmp_path, {"groups": groups})
    folder = tree(tmp_path / "mounts", files)
    assert memory._of_control_group(names / "groups", folder) == left


class Three:
    """Three trainers, two of them on one host; `told` by this one, and as it would be."""

    rank, size, store = 0, 3, None

    def __init__(self, available: int) -> None:
        self.available = available

    def tell(self, mine: Any) -> list[Any]:
        key, _, needed, _ = mine
        return [
            (key, "a", needed, self.available + 5),
            (key, "a", needed, self.available),
            ("elsewhere", "b", needed, needed),
        ]


def test_memory_of_all_ranks_of_a_host_has_to_suffice():
    refuse_too_much(Three(4 * GIB), GIB, 0, (1, 0), 0)
    words = rf"need {4 * GIB} bytes of memory for 2 snapshots of 2 ranks on host 'a', and 4000 can"
    with pytest.raises(ConfigError, match=words):
        refuse_too_much(Three(4000), GIB, 0, (1, 0), 0)
    with pytest.raises(ConfigError, match=rf"need {6 * GIB} bytes of memory for 3 snapshots"):
        refuse_too_much(Three(4 * GIB), GIB, 0, (1, 0), 500)
    # Parity of 3 + 1 is a third more; keepers that have their memory need no more.
    tiles = -(-1024 // 3)
    with pytest.raises(ConfigError, match=rf"need {4 * 4 * tiles << 20} bytes"):
        refuse_too_much(Three(4 * GIB), GIB, 0, (3, 1), 0)
    refuse_too_much(Three(0), GIB, GIB, (1, 0), 0)


def test_what_an_optimizer_will_make_is_counted():
    net = torch.nn.Linear(10, 10)
    adam = torch.optim.AdamW(net.parameters())
    assert to_come({"model": net, "optim": adam}) == 2 * 110 * 4
    net(torch.ones(10)).sum().backward()
    adam.step()
    assert to_come({"optim": [adam]}) == 0
    assert with_slack(0) == 1 << 20
