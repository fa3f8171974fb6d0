"""What close() says: that all have what this rank has, that it was voted out, or who may not."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from ranks import END_WHOLE, Outcome, finish, start_rank

# Of three ranks on three hosts, as far as they can see: nobody knows of a process elsewhere.
ENV = {
    "HOLDFAST_SILENCE": "0.6",
    "HOLDFAST_HEARTBEAT": "0.1",
    "HOLDFAST_TIMEOUT": "30",
    "HOLDFAST_TRANSPORTS": "tcp",
}


def told(outcome: Outcome) -> dict[str, object]:
    line = next(line for line in outcome.output.splitlines() if line.startswith("{"))
    return json.loads(line)


def close_while(meeting: Path, limit_s: float, fault: str) -> list[Outcome]:
    env = {**ENV, **END_WHOLE, "CLOSE_S": str(limit_s)}
    ranks = [
        start_rank(
            *("close_ranks", "close_without_rank_2", r, 3, meeting),
            {**env, "HOLDFAST_HOST_ID": f"host-{r}"},
        )
        for r in range(3)
    ]
    deadline = time.monotonic() + 60
    while not all((meeting / f"pid{r}").exists() for r in range(3)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    pid = int((meeting / "pid2").read_text())
    os.kill(pid, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    (meeting / "go").touch()
    if fault == "comes back":
        time.sleep(2)
        os.kill(pid, signal.SIGCONT)
    outcomes = finish(ranks[:2], 60)
    if fault == "stopped":
        os.kill(pid, signal.SIGCONT)
    return [*outcomes, *finish(ranks[2:], 60)]


def test_a_dead_rank_is_not_waited_for(tmp_path: Path) -> None:
    for outcome in close_while(tmp_path, 20, "killed")[:2]:
        word = told(outcome)
        assert word["ended"] == "ok", word
        assert word["sum"] == 3, word
        assert word["took"] < 5, word


def test_a_rank_that_was_voted_out_and_comes_back_is_told_before_the_others_go(
    tmp_path: Path,
) -> None:
    outcomes = close_while(tmp_path, 20, "comes back")
    for outcome in outcomes[:2]:
        word = told(outcome)
        assert (word["ended"], word["sum"]) == ("ok", 3), word
    word = told(outcomes[2])
    assert (word["op"], word["ended"], word["sum"]) == ("NotMember", "NotMember", 0), word


def test_a_rank_that_does_not_answer_is_named_when_the_time_is_over(tmp_path: Path) -> None:
    limit_s = 1.0
    outcomes = close_while(tmp_path, limit_s, "stopped")
    for outcome in outcomes[:2]:
        word = told(outcome)
        assert (word["ended"], word["ranks"], word["epoch"]) == ("Unconfirmed", [2], 2), word
        assert "rank 2 did not confirm" in str(word["text"]), word
        assert limit_s <= float(str(word["took"])) < limit_s + 5, word
