"""What looks at ranks names the calls of an MPI program: doctor, trace, top, and the metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compilers import needs_compiler
from mpi_programs import build, command
from ports import held_port
from waiting import eventually

from holdfast import _mpi
from holdfast.ft.health.evidence import metrics_of

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")

# Rank 0 serves pages at an address that it is given.
PROGRAM = """
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, one = 1, sum = 0, data[4] = {0};
  MPI_Comm twin, half;
  MPI_Request requests[2];
  if (strcmp(getenv("RANK"), "0") == 0) setenv("HOLDFAST_HTTP", argv[1], 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &half);
  for (int i = 0; i < 10; ++i) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin);
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const int other = 1 - rank;
  for (int i = 0; i < 5 && rank < 2; ++i) {
    MPI_Sendrecv(data, 4, MPI_INT, other, 0, data, 4, MPI_INT, other, 0, twin, MPI_STATUS_IGNORE);
  }
  if (strcmp(argv[2], "hang") == 0) {
    if (rank == 0) MPI_Recv(data, 1, MPI_INT, 1, 7, twin, MPI_STATUS_IGNORE);
    if (rank == 1) pause();
    if (rank == 2) MPI_Barrier(twin);
  } else {
    MPI_Irecv(data, 1, MPI_INT, (rank + 1) % 3, 7, twin, &requests[0]);
    MPI_Irecv(data, 1, MPI_INT, (rank + 1) % 3, 8, twin, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  return MPI_Finalize();
}
"""


@contextmanager
def hanging(how: str, folder: Path, address: str) -> Iterator[Path]:
    """Run three ranks that hang; yields the folder of their flight records."""
    source = folder / "program.c"
    source.write_text(PROGRAM)
    records = folder / "flight"
    records.mkdir()
    job = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast.cli", "run", "-n", "3"),
            *(str(build("abi", source, folder)), address, how),
        ],
        env={**os.environ, "HOLDFAST_FLIGHT_DIR": str(records)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield records
    finally:
        job.send_signal(signal.SIGKILL)  # and with it the ranks
        job.wait(timeout=30)


def asked(records: Path, finding: str) -> str:
    """Ask the doctor until it finds this."""

    def ask() -> str:
        said = command("doctor", str(records)).stdout
        return said if finding in said else ""

    return eventually(ask, 60)


@needs_compiler
def test_a_rank_that_hangs_is_named_with_the_calls_that_wait_for_it(tmp_path) -> None:
    port = held_port()
    with hanging("hang", tmp_path, f"127.0.0.1:{port}") as records:
        said = asked(records, "in MPI_Recv, recv of group mpi with rank 1 of it, for rank 1")
        assert "hang: rank 1" in said
        assert "in MPI_Barrier, barrier 10 of group mpi/0" in said
        assert "its last call was MPI_Bcast, broadcast" in said

        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            metrics = metrics_of(page.read().decode())
        calls = metrics.by("holdfast_calls_total", "call")
        assert calls["MPI_Allreduce"] == 10
        assert calls["MPI_Iallreduce"] == calls["MPI_Bcast"] == calls["MPI_Comm_dup"] == 1
        assert metrics.total("holdfast_messages_total", peer="1", direction="sent") == 5
        assert metrics.total("holdfast_message_bytes_total", peer="1", direction="received") == 80
        assert metrics.by_peer("holdfast_peer_wait_seconds_total")[1] > 0.2
        top = command("top", "--once", f"127.0.0.1:{port}").stdout
        assert "MPI_Allreduce" in top
        assert "messages sent" in top

        trace = tmp_path / "trace.json"
        done = command("trace", str(records), "-o", str(trace))
        assert done.returncode == 0, done.stderr
        names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
        assert names >= {"MPI_Allreduce", "MPI_Bcast", "MPI_Comm_split", "MPI_Recv (not ended)"}


@needs_compiler
def test_ranks_that_receive_from_each_other_are_a_deadlock(tmp_path) -> None:
    with hanging("circle", tmp_path, f"127.0.0.1:{held_port()}") as records:
        said = asked(records, "deadlock: ranks 0, 1, 2")
        assert "rank 2 waits for" in said
        assert "in MPI_Waitall, recv of group mpi with rank 0 of it, for rank 0" in said
