"""Runs PyTorch's own `DistributedTest` over a backend of one's choice, one JSON line per test.

The suite reads the name of its backend when it is imported and opens or skips tests by it, so it is
imported under a name that it knows (the gate) and told the real one afterwards. Ranks are forked,
and every rank's exit status counts, where the suite itself looks at rank 0's only.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

# A test that takes longer hangs.
TEST_TIMEOUT_S = 90
# What no backend outside of torch's own tree can pass on 2.13, and why.
OUT_OF_REACH = {
    "test_ddp_logging_data_cpu": "DDP's logger calls every backend outside of the tree 'custom'",
}
# Of a failure's text, the end says most.
REASON_CHARACTERS = 1500


def load_suite(backend: str, gate: str, ranks: int, folder: Path) -> Any:
    """Import the suite under `gate` and point it at `backend`.

    Parameters
    ----------
    backend : str
        The backend that runs.
    gate : str
        The name by which the suite's decorators choose: "gloo" or "mpi".
    ranks : int
        World size.
    folder : Path
        An empty folder for the suite's files.

    Returns
    -------
    type
        A `unittest.TestCase`.
    """
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir()
    os.environ.update(
        BACKEND=gate,
        WORLD_SIZE=str(ranks),
        TEMP_DIR=str(folder),
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(TEST_TIMEOUT_S),
        MASTER_ADDR="127.0.0.1",
        # Opens the tests that make the process group anew.
        INIT_METHOD=f"file://{folder}/second_meeting",
        OMP_NUM_THREADS="1",
    )
    # The suite asks whether the gate's library is there before it asks what it runs.
    import torch.distributed as dist
    import torch.multiprocessing as mp

    if gate == "mpi":
        dist.is_mpi_available = lambda: True
    from torch.testing._internal.distributed import distributed_test as suite

    suite.BACKEND = backend
    for names in (
        suite.PROFILING_SUPPORTED_BACKENDS,
        suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
    ):
        names.append(backend)
    for names in suite.DistTestCases.backend_feature.values():
        if "gloo" in names:
            names.add(backend)

    # dist.monitored_barrier() of torch 2.13 goes by the backend's name; the group's own does not.
    suite.dist.monitored_barrier = _monitored_barrier
    bases: Any = (suite.TestDistBackend, suite.DistributedTest._DistTestBase)

    class Retargeted(*bases):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(mp.get_context("fork").Process)

        def _test_accumulate_gradients_no_sync(self, *args: Any, **kwargs: Any) -> None:
            # Chooses between a CPU and a CUDA model by the name.
            suite.BACKEND = "gloo"
            super()._test_accumulate_gradients_no_sync(*args, **kwargs)

        def _check_return_codes(self, fn: Any, elapsed_time: float) -> None:
            super()._check_return_codes(fn, elapsed_time)
            if fn in self.skip_return_code_checks:
                return
            codes = [p.exitcode for p in self.processes]
            assert codes == codes[:1] * len(codes), f"exit statuses of the ranks: {codes}"

    return Retargeted


def _monitored_barrier(
    group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    import torch.distributed as dist

    group = group or dist.group.WORLD
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        return
    if isinstance(timeout, float):
        timeout = timedelta(seconds=timeout)
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


class Recorder(unittest.TestResult):
    """Notes the outcome of one test."""

    outcome = "passed"
    reason = ""

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._failed(self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._failed(self.failures[-1][1])

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.outcome, self.reason = "skipped", reason

    def _failed(self, text: str) -> None:
        self.outcome, self.reason = "failed", text[-REASON_CHARACTERS:]


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what this process and its children print to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        os.close(saved[0])
        os.close(saved[1])


def run(case: Any, names: list[str], log: Path) -> Iterator[dict[str, object]]:
    """Run tests one by one.

    Yields
    ------
    dict
        `test`, `outcome` ("passed", "failed", "skipped", "out of reach"), `seconds`, `reason`.
    """
    for name in names:
        recorder = Recorder()
        began = time.monotonic()
        with quiet(log):
            print(f"\n======== {name}", file=sys.stderr)
            case(name).run(recorder)
        seconds = round(time.monotonic() - began, 2)
        if recorder.outcome == "failed" and name in OUT_OF_REACH:
            recorder.outcome, recorder.reason = "out of reach", OUT_OF_REACH[name]
        yield {
            "test": name,
            "outcome": recorder.outcome,
            "seconds": seconds,
            "reason": recorder.reason,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="holdfast")
    parser.add_argument("--gate", default="gloo", choices=("gloo", "mpi"))
    parser.add_argument("-n", "--ranks", type=int, default=3)
    parser.add_argument("--only", help="file with names of tests, or names with commas")
    parser.add_argument("--log", type=Path, default=Path("build/logs/torch_suite.log"))
    options = parser.parse_args()
    options.log.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        case = load_suite(options.backend, options.gate, options.ranks, Path(folder))
        names = unittest.TestLoader().getTestCaseNames(case)
        if options.only:
            path = Path(options.only)
            text = path.read_text() if path.is_file() else options.only.replace(",", "\n")
            chosen = set(text.split())
            unknown = chosen - set(names)
            if unknown:
                parser.error(f"no such test: {', '.join(sorted(unknown))}")
            names = [n for n in names if n in chosen]
        for row in run(case, list(names), options.log):
            failed += row["outcome"] == "failed"
            row.update(backend=options.backend, gate=options.gate, ranks=options.ranks)
            print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
