"""Writes the variables that Open MPI's libraries export, whose addresses are handles."""

from __future__ import annotations

from values import table

# Bytes of each kind's variables. Programs copy them into their own memory, by the size that they
# were linked with: Open MPI 4.1.4 and 5.0.11 have the same.
SIZES = {
    "comm": 512,
    "type": 512,
    "group": 256,
    "op": 2048,
    "request": 256,
    "message": 256,
    "info": 256,
    "errhandler": 1024,
    "session": 512,
    "win": 512,
    "file": 1536,
}
# Types that programs ask for and no header of today names.
OTHERS = ("ompi_mpi_c_short_float_complex", "ompi_mpi_cxx_sfltcplex")


def source() -> str:
    """Return the file that defines them."""
    rows = [(row[0], row[5]) for row in table("handles.table") if row[5] != "-"]
    rows += [("type", name) for name in OTHERS]
    lines = [
        f"HOLDFAST_MPI extern Storage<{SIZES[kind]}> {name};\nStorage<{SIZES[kind]}> {name};"
        for kind, name in rows
    ]
    body = "\n".join(lines)
    return f"""// Written by bindings/mpi/generate.py of abi/handles.table.
#include "mpi/abi/export.h"

namespace {{

// Its first word says where the object is (abi.h).
template <int kBytes>
struct alignas(32) Storage {{
  unsigned char bytes[kBytes];
}};

}}  // namespace

extern "C" {{

{body}

HOLDFAST_MPI extern int* MPI_F_STATUS_IGNORE;
HOLDFAST_MPI extern int* MPI_F_STATUSES_IGNORE;
HOLDFAST_MPI extern int* MPI_F08_STATUS_IGNORE;
HOLDFAST_MPI extern int* MPI_F08_STATUSES_IGNORE;
int* MPI_F_STATUS_IGNORE = nullptr;
int* MPI_F_STATUSES_IGNORE = nullptr;
int* MPI_F08_STATUS_IGNORE = nullptr;
int* MPI_F08_STATUSES_IGNORE = nullptr;
}}
"""
