"""The native tests of kernels on the GPU, alone or under compute-sanitizer.

    python tests/gpu/native_tests.py
    python tests/gpu/native_tests.py --tools memcheck,racecheck,initcheck,synccheck

They compare every kernel with its CPU reference. A test that ran on the emulator instead, since its
build has no images of kernels, does not count: the log of each says where it ran.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import world

LIMIT_S = 300.0
TESTS = "kernels,codecs,stages,memory,lists,erasure"
ROOT = Path(__file__).resolve().parents[2]
CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
# How compute-sanitizer ends when it has found something.
FOUND = 86


def command_of(test: Path, tool: str, sanitizer: str) -> list[str]:
    """Return how to run a test under a tool; `none` is alone."""
    if tool == "none":
        return [str(test)]
    return [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), str(test)]


def run_one(command: list[str], env: dict[str, str], seconds: float) -> tuple[str, str]:
    """Return `passed`, `failed`, `cut` or `emulator`, and the end of what it said."""
    try:
        done = subprocess.run(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=max(seconds, 0.01),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "cut", f"out of time after {seconds:.0f} s"
    sys.stderr.write(done.stdout)
    last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
    if done.returncode != 0:
        return "failed", f"status {done.returncode}: {' '.join(last)}"
    return ("passed" if "MESSAGE: on the GPU" in done.stdout else "emulator"), ""


def main() -> int:
    """Run them, and print a line."""
    parser = world.arguments_of(__doc__, LIMIT_S)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/native/tests/native")
    parser.add_argument("--tests", default=TESTS, help=f"of test_device_* ({TESTS})")
    parser.add_argument("--tools", default="none", help="of compute-sanitizer; 'none': alone")
    parser.add_argument("--sanitizer", default="", help="where compute-sanitizer is")
    given = parser.parse_args()
    tests = [given.folder / f"test_device_{name}" for name in given.tests.split(",")]
    tools = given.tools.split(",")
    sanitizer = given.sanitizer or shutil.which("compute-sanitizer", path=search_path())
    lacking = [str(test) for test in tests if not test.is_file()]
    if lacking:
        print(f"not built: {', '.join(lacking)}")
        return world.LACKS
    if sanitizer is None and tools != ["none"]:
        print("no compute-sanitizer")
        return world.LACKS
    env = dict(os.environ)
    if given.driver == "emulated":
        env["HOLDFAST_TEST_EMULATOR"] = "1"
    deadline = time.monotonic() + given.limit
    told: dict[str, dict[str, str]] = {"passed": {}, "failed": {}, "cut": {}, "emulator": {}}
    for tool in tools:
        for test in tests:
            command = command_of(test, tool, str(sanitizer))
            outcome, text = run_one(command, env, deadline - time.monotonic())
            name = test.name if tool == "none" else f"{tool} {test.name}"
            told[outcome][name] = text
    if told["emulator"] and given.driver != "emulated":
        print(
            f"ran on the emulator, for want of a device or of nvcc: {', '.join(told['emulator'])}"
        )
        return world.LACKS
    row: dict[str, Any] = {"name": "native tests", "tools": tools}
    print(json.dumps({**row, **told}))
    return 0


def search_path() -> str:
    """Return where programs of CUDA may be."""
    return os.pathsep.join([os.environ.get("PATH", ""), str(CUDA / "bin")])


if __name__ == "__main__":
    sys.exit(main())
