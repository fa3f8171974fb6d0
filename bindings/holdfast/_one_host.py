"""Whether all processes that a process may meet are on its host: then it listens on loopback."""

from __future__ import annotations

import dataclasses
import ipaddress
import os

from holdfast.options import Options

# Ranks on this host, and all ranks, as launchers say them: torchrun and `holdfast run`; Open MPI;
# Hydra, of MPICH and Intel MPI.
_COUNTS = (
    ("LOCAL_WORLD_SIZE", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("MPI_LOCALNRANKS", "PMI_SIZE"),
)


def is_loopback(host: str) -> bool:
    """Tell whether a name or a numeric address is this host for itself alone.

    Parameters
    ----------
    host : str
        Without brackets.

    Returns
    -------
    bool
        False for any other name: it is not looked up.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _are_all_here(options: Options) -> bool:
    if options.coordinator:
        # Who joins from elsewhere calls the members that are there.
        places = options.coordinator.removeprefix("holdfast://").partition("/")[0].split(",")
        return all(is_loopback(place.rpartition(":")[0].strip("[]")) for place in places)
    for here, everywhere in _COUNTS:
        count = os.environ.get(everywhere)
        # A launcher of one process may be one of many, each of which started its own.
        if count not in (None, "1") and os.environ.get(here) == count:
            return True
    # A store at loopback is for this host alone.
    return "HOLDFAST_STORE" not in os.environ and is_loopback(os.environ.get("MASTER_ADDR", ""))


def narrowed(options: Options) -> Options:
    """Have a process listen on loopback alone if nobody calls it from elsewhere.

    Parameters
    ----------
    options : Options
        As they are set: an address that is set stays.

    Returns
    -------
    Options
        The same, or with an address.
    """
    if options.address or not _are_all_here(options):
        return options
    return dataclasses.replace(options, address="127.0.0.1")
