"""The front door: what people come for is three clicks from the README, on the pages alone."""

from __future__ import annotations

from collections import deque

import pytest
from page_links import anchors, links

MOST_CLICKS = 3
# Task, and the page and heading that solve it.
TASKS = [
    ("lose a rank with FSDP2", "docs/guide/sharded-training.md", "fsdp2"),
    ("find the slow link", "docs/operate/doctor.md", "what-it-names"),
    (
        "train over two sites",
        "docs/guide/elastic.md",
        "training-over-two-sites-or-over-a-wan",
    ),
    ("add an algorithm", "CONTRIBUTING.md", "adding-an-algorithm"),
    ("compress gradients at 1 Gbit/s", "docs/guide/slow-links.md", "in-two-lines"),
    ("Prometheus and alerts", "docs/operate/health.md", "alerts-and-a-dashboard"),
    ("a C program that all-reduces", "docs/guide/c.md", "a-program"),
    (
        "what happens to all_gather when a rank dies",
        "docs/reference/guarantees.md",
        "what-survivors-get",
    ),
    (
        "an urgent small op beside bulk ones",
        "docs/guide/torch.md",
        "an-urgent-op-beside-bulk-ones",
    ),
    ("start under Slurm or Kubernetes", "docs/operate/launch.md", "which-launcher"),
    (
        'a message "built for torch 2.x" appears',
        "docs/operate/troubleshooting.md",
        "holdfast-was-built-for-torch-2x",
    ),
]


def path_to(goal: str) -> list[str]:
    """Return the pages of the shortest way from the README, which comes first; empty without."""
    came_from: dict[str, str | None] = {"README.md": None}
    queue = deque(["README.md"])
    while queue:
        page = queue.popleft()
        if page == goal:
            way: list[str] = []
            at: str | None = page
            while at is not None:
                way.insert(0, at)
                at = came_from[at]
            return way
        for target, _ in links(page) if page.endswith(".md") else ():
            if target not in came_from:
                came_from[target] = page
                queue.append(target)
    return []


@pytest.mark.parametrize(("task", "page", "heading"), TASKS, ids=[task for task, _, _ in TASKS])
def test_a_task_is_solved_within_three_clicks(task: str, page: str, heading: str) -> None:
    way = path_to(page)
    assert way, f"no link leads to {page}"
    assert len(way) - 1 <= MOST_CLICKS, " > ".join(way)
    assert heading in anchors(page)
