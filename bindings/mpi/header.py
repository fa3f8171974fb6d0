"""Writes mpi.h of the standard ABI, of the tables: what holdfast mpicc compiles with."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from table import TABLE, Argument, Row, parse
from values import FOLDER, table

TYPES = {
    "comm": "MPI_Comm",
    "type": "MPI_Datatype",
    "group": "MPI_Group",
    "op": "MPI_Op",
    "request": "MPI_Request",
    "info": "MPI_Info",
    "errhandler": "MPI_Errhandler",
    "message": "MPI_Message",
    "session": "MPI_Session",
    "win": "MPI_Win",
    "file": "MPI_File",
}
# Names of the same object.
ALIASES = {
    "MPI_LONG_LONG_INT": "MPI_LONG_LONG",
    "MPI_C_COMPLEX": "MPI_C_FLOAT_COMPLEX",
}
# C's types of constants that are no `int`.
CASTS = {
    "MPI_BOTTOM": "void*",
    "MPI_IN_PLACE": "void*",
    "MPI_BUFFER_AUTOMATIC": "void*",
    "MPI_STATUS_IGNORE": "MPI_Status*",
    "MPI_STATUSES_IGNORE": "MPI_Status*",
    "MPI_UNWEIGHTED": "int*",
    "MPI_WEIGHTS_EMPTY": "int*",
    "MPI_ARGV_NULL": "char**",
    "MPI_ARGVS_NULL": "char***",
    "MPI_ERRCODES_IGNORE": "int*",
    "MPI_DISPLACEMENT_CURRENT": "MPI_Offset",
}
FUNCTIONS = {
    "Op_create": ["MPI_User_function"],
    "Comm_create_errhandler": ["MPI_Comm_errhandler_function"],
    "Session_create_errhandler": ["MPI_Session_errhandler_function"],
    "Comm_create_keyval": ["MPI_Comm_copy_attr_function", "MPI_Comm_delete_attr_function"],
    "Type_create_keyval": ["MPI_Type_copy_attr_function", "MPI_Type_delete_attr_function"],
    "Keyval_create": ["MPI_Copy_function", "MPI_Delete_function"],
    "Grequest_start": [
        "MPI_Grequest_query_function",
        "MPI_Grequest_free_function",
        "MPI_Grequest_cancel_function",
    ],
}

_TYPES = """\
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;

typedef struct {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int MPI_internal[5];
} MPI_Status;
"""

_CALLBACKS = """\
typedef void(MPI_User_function)(void*, void*, int*, MPI_Datatype*);
typedef void(MPI_User_function_c)(void*, void*, MPI_Count*, MPI_Datatype*);
typedef int(MPI_Grequest_query_function)(void*, MPI_Status*);
typedef int(MPI_Grequest_free_function)(void*);
typedef int(MPI_Grequest_cancel_function)(void*, int);
typedef int(MPI_Comm_copy_attr_function)(MPI_Comm, int, void*, void*, void*, int*);
typedef int(MPI_Comm_delete_attr_function)(MPI_Comm, int, void*, void*);
typedef int(MPI_Type_copy_attr_function)(MPI_Datatype, int, void*, void*, void*, int*);
typedef int(MPI_Type_delete_attr_function)(MPI_Datatype, int, void*, void*);
typedef int(MPI_Win_copy_attr_function)(MPI_Win, int, void*, void*, void*, int*);
typedef int(MPI_Win_delete_attr_function)(MPI_Win, int, void*, void*);
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;
typedef void(MPI_Comm_errhandler_function)(MPI_Comm*, int*, ...);
typedef void(MPI_File_errhandler_function)(MPI_File*, int*, ...);
typedef void(MPI_Win_errhandler_function)(MPI_Win*, int*, ...);
typedef void(MPI_Session_errhandler_function)(MPI_Session*, int*, ...);
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;
typedef int(MPI_Datarep_extent_function)(MPI_Datatype, MPI_Aint*, void*);
typedef int(MPI_Datarep_conversion_function)(void*, MPI_Datatype, int, void*, MPI_Offset, void*);
typedef int(MPI_Datarep_conversion_function_c)(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset,
                                               void*);

#define MPI_NULL_COPY_FN ((MPI_Copy_function*)0)
#define MPI_DUP_FN ((MPI_Copy_function*)1)
#define MPI_NULL_DELETE_FN ((MPI_Delete_function*)0)
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function*)0)
#define MPI_COMM_DUP_FN ((MPI_Comm_copy_attr_function*)1)
#define MPI_COMM_NULL_DELETE_FN ((MPI_Comm_delete_attr_function*)0)
#define MPI_TYPE_NULL_COPY_FN ((MPI_Type_copy_attr_function*)0)
#define MPI_TYPE_DUP_FN ((MPI_Type_copy_attr_function*)1)
#define MPI_TYPE_NULL_DELETE_FN ((MPI_Type_delete_attr_function*)0)
#define MPI_WIN_NULL_COPY_FN ((MPI_Win_copy_attr_function*)0)
#define MPI_WIN_DUP_FN ((MPI_Win_copy_attr_function*)1)
#define MPI_WIN_NULL_DELETE_FN ((MPI_Win_delete_attr_function*)0)
#define MPI_CONVERSION_FN_NULL ((MPI_Datarep_conversion_function*)0)
#define MPI_CONVERSION_FN_NULL_C ((MPI_Datarep_conversion_function_c*)0)
"""

_TOOL = """\
typedef struct MPI_ABI_T_enum* MPI_T_enum;
typedef struct MPI_ABI_T_cvar_handle* MPI_T_cvar_handle;
typedef struct MPI_ABI_T_pvar_handle* MPI_T_pvar_handle;
typedef struct MPI_ABI_T_pvar_session* MPI_T_pvar_session;
typedef struct MPI_ABI_T_event_registration* MPI_T_event_registration;
typedef struct MPI_ABI_T_event_instance* MPI_T_event_instance;
#define MPI_T_ENUM_NULL ((MPI_T_enum)0)
#define MPI_T_CVAR_HANDLE_NULL ((MPI_T_cvar_handle)0)
#define MPI_T_PVAR_SESSION_NULL ((MPI_T_pvar_session)0)
#define MPI_T_PVAR_HANDLE_NULL ((MPI_T_pvar_handle)0)
#define MPI_T_PVAR_ALL_HANDLES ((MPI_T_pvar_handle)1)
"""

_TOOL_FUNCTIONS = """\
typedef void(MPI_T_event_cb_function)(MPI_T_event_instance, MPI_T_event_registration,
                                      MPI_T_cb_safety, void*);
typedef void(MPI_T_event_free_cb_function)(MPI_T_event_registration, MPI_T_cb_safety, void*);
typedef void(MPI_T_event_dropped_cb_function)(MPI_Count, MPI_T_event_registration, int,
                                              MPI_T_cb_safety, void*);
"""


def _handles() -> Iterator[str]:
    declared = set()
    for kind, name, _core, standard, *_ in table("handles.table"):
        if standard == "-":
            continue
        if kind not in declared:
            declared.add(kind)
            tag = TYPES[kind].replace("MPI_", "MPI_ABI_")
            yield f"\ntypedef struct {tag}* {TYPES[kind]};"
        yield f"#define {name} (({TYPES[kind]}){standard})"
    for name, other in ALIASES.items():
        yield f"#define {name} {other}"


def _constants(*, tool: bool) -> Iterator[str]:
    """Yield constants: by define, but for the enumerations of the tools' interface."""
    rows = [row for row in table("constants.table") if row[1].startswith("MPI_T_") == tool]
    for _meaning, name, value, *_ in rows:
        if name.startswith(("MPI_T_CB_", "MPI_T_SOURCE_")):
            continue
        cast = CASTS.get(name)
        yield f"#define {name} {f'(({cast}){value})' if cast else _int(value)}"
    for name in ("cb_safety", "source_order") if tool else ():
        prefix = f"MPI_T_{name.split('_')[0].upper()}_"
        items = [f"{row[1]} = {row[2]}" for row in rows if row[1].startswith(prefix)]
        yield f"typedef enum {{ {', '.join(items)} }} MPI_T_{name};"


def _int(value: str) -> str:
    return f"({value})" if value.startswith("-") else value


def _number(argument: Argument, wide: bool) -> str:
    """Return C's type of a number."""
    kind = argument.kind
    if kind == "wide" or (wide and kind == "displacement"):
        return "MPI_Count"
    if kind in ("aint", "displacement"):
        return "MPI_Aint"
    if kind == "count" and wide:
        # Displacements in units of a type's extent have become addresses' differences in the twins.
        return "MPI_Aint" if argument.name.endswith("displs") else "MPI_Count"
    return "int"


def _parameter(argument: Argument, row: Row, wide: bool, functions: Iterator[str]) -> str:
    """Return a parameter of a prototype."""
    name, kind = argument.name, argument.kind
    if kind == "function":
        return f"{next(functions)}{'_c' if wide else ''}* {name}"
    fixed = {
        "buffer": "void*" if argument.written else "const void*",
        "location": "const void*",
        "address": "void*",
        "attached": "void*",
        "state": "void*",
        "argc": "int*" if argument.written else "int",
        "argv": "char***" if argument.written else "char**",
        "string": "char*" if argument.written else "const char*",
        "length": "int*",
    }
    # Buffers that stay the library's for a while, and memory that it gives and takes.
    if (row.name, name) in (("Free_mem", "base"),) or name == "buffer":
        return f"void* {name}"
    if kind in fixed:
        return f"{fixed[kind]} {name}"
    base = (
        TYPES[kind]
        if kind in TYPES
        else "MPI_Status"
        if kind == "status"
        else _number(argument, wide)
    )
    if kind == "range":
        return f"int {name}[][3]"
    const = "" if argument.written else "const "
    if row.name.startswith("Request_get_status") and kind == "request":
        const = "const "
    if argument.array:
        # No array: compilers warn of MPI_UNWEIGHTED and its kin, which are no addresses of one.
        return f"{const}{base}* {name}"
    if kind == "status":
        return f"{const}{base}* {name}"
    return f"{base}* {name}" if argument.written else f"{base} {name}"


def prototype(row: Row, wide: bool) -> str:
    """Return the declaration of a function, or of its twin, without a semicolon."""
    functions = iter(FUNCTIONS.get(row.name, ()))
    given = [a for a in row.arguments if wide or not a.twin_only]
    parameters = [_parameter(a, row, wide, functions) for a in given]
    if row.name == "Pcontrol":
        parameters = ["const int level", "..."]
    result = {"": "int", "int": "int", "double": "double", "aint": "MPI_Aint"}.get(row.result)
    result = result or TYPES[row.result]
    suffix = "_c" if wide else ""
    return f"{result} MPI_{row.name}{suffix}({', '.join(parameters) or 'void'})"


def prototypes() -> Iterator[str]:
    """Yield the declarations of all functions of the standard ABI."""
    rows, _ = parse(TABLE.read_text())
    for row in rows:
        # Integers of handles, and statuses, that Fortran has are no part of this ABI.
        if row.name.endswith(("_c2f", "_f2c")) or "f08" in row.name:
            continue
        yield prototype(row, False)
        if row.has_twin():
            yield prototype(row, True)
    text = (FOLDER / "prototypes.table").read_text()
    for line in re.sub(r"\n    +", " ", text).splitlines():
        if line and not line.startswith("#"):
            yield line


def source() -> str:
    """Return mpi.h."""
    declared = []
    for line in prototypes():
        for text in (line, line.replace(" MPI_", " PMPI_", 1)):
            declared.append(textwrap.fill(f"{text};", 100, subsequent_indent="    "))
    parts = [
        _TYPES,
        "\n".join(_handles()).lstrip("\n"),
        "\n".join(_constants(tool=False)),
        _CALLBACKS,
        _TOOL,
        "\n".join(_constants(tool=True)),
        _TOOL_FUNCTIONS,
        "\n".join(declared),
    ]
    body = "\n\n".join(part.rstrip("\n") for part in parts)
    return f"""// MPI-5 and its ABI, for C and C++: programs run on any library that has this ABI.
#ifndef HOLDFAST_MPI_H
#define HOLDFAST_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define MPI_ABI_VERSION 1
#define MPI_ABI_SUBVERSION 0

{body}

#ifdef __cplusplus
}}
#endif

#endif
"""
