"""``holdfast secret``: the file that the processes of a job share."""

from __future__ import annotations

import argparse

from holdfast import _core

EXAMPLES = """examples:
  holdfast secret run7.secret                    make one, then copy it to all hosts (scp, a
                                                 Kubernetes secret, ...), for your user alone
  HOLDFAST_SECRET_FILE=run7.secret holdfast coordinator
  HOLDFAST_SECRET_FILE=run7.secret torchrun ... train.py
Who has the file is let in, reads nothing that went before, and can let others in. To replace it,
stop the job, make another file, and start the job with that.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument("file", metavar="FILE", help="to be made, with mode 0600; not written over")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the file.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0.
    """
    _core.make_secret_file(arguments.file)
    print(f"{arguments.file}: a new secret, for option secret_file (HOLDFAST_SECRET_FILE)")
    return 0
