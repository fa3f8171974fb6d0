"""A test script of Hugging Face accelerate's, unchanged, in a process group that is there already.

accelerate takes "gloo" for the CPU whatever it is told (accelerate_train.py, `option`), but leaves
a process group alone that was initialised before. The argument names the script; `test_script` is
what `accelerate test` runs.
"""

from __future__ import annotations

import os
import runpy
import sys

import record
import torch.distributed as dist


def main() -> None:
    rank = int(os.environ["RANK"])
    # The script reads the command line, too.
    script = sys.argv.pop()
    try:
        dist.init_process_group(record.BACKEND)
        runpy.run_module(f"accelerate.test_utils.scripts.{script}", run_name="__main__")
    except BaseException as error:
        record.tell_error(rank, error)
        raise
    record.tell(rank, end=True)


if __name__ == "__main__":
    main()
