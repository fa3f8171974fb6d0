"""The name of the job that this process is a rank of, the same in all lives of the job."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from holdfast.errors import ConfigError


def job_name(env: Mapping[str, str] | None = None) -> str:
    """Return the job's name: HOLDFAST_JOB, else what its launcher calls it.

    Parameters
    ----------
    env : mapping, optional
        Default: this process's environment.

    Raises
    ------
    ConfigError
        There is none.
    """
    env = os.environ if env is None else env
    if name := env.get("HOLDFAST_JOB", "").strip():
        return name
    # torchrun's, unless the user gave it none.
    if (run := env.get("TORCHELASTIC_RUN_ID", "none").strip()) not in ("", "none"):
        return f"torchrun-{run}"
    if run := env.get("SLURM_JOB_ID", "").strip():
        return f"slurm-{run}"
    _, slash, name = env.get("HOLDFAST_COORDINATOR", "").rpartition("/")
    if slash and name:
        return f"coordinator-{name}"
    if "MASTER_ADDR" in env and "MASTER_PORT" in env:
        return f"at-{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    raise ConfigError(
        "this job has no name by which its snapshots could be found again; set HOLDFAST_JOB, the "
        "same for all ranks and for all restarts, or start it with `holdfast run`, torchrun or srun"
    )


def host_name(env: Mapping[str, str] | None = None) -> str:
    """Return what tells this rank's host from others on one machine; empty: the machine.

    Parameters
    ----------
    env : mapping, optional
        Default: this process's environment.
    """
    env = os.environ if env is None else env
    return env.get("HOLDFAST_HOST_ID", "").strip()


def domain_name(env: Mapping[str, str] | None = None) -> str:
    """Return what is lost as a whole with this rank: its domain, where it has one, else its host.

    Parameters
    ----------
    env : mapping, optional
        Default: this process's environment.
    """
    env = os.environ if env is None else env
    return env.get("HOLDFAST_DOMAIN", "").strip() or host_name(env) or socket.gethostname()
