"""Writes entry points: from the C arguments of one ABI to the body, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from table import ABSENT, LONG, OBJECTS, Argument, Row

# Kinds whose values have names, which ABIs may spell their own way.
MEANINGS = {
    "rank": "kRank",
    "tag": "kTag",
    "order": "kOrder",
    "distribution": "kDistribution",
    "darg": "kDistributionArgument",
    "error": "kError",
    "combiner": "kCombiner",
    "keyval": "kKeyval",
    "comparison": "kComparison",
    "topology": "kTopology",
    "split": "kSplit",
    "thread": "kThread",
    "typeclass": "kTypeClass",
}
# Handles as integers, and statuses of Fortran, are each ABI's own matter: abi.h has them, and no
# body is called.
CONVERSIONS = ("_c2f", "_f2c", "_toint", "_fromint", "_c2f08", "_f082c", "_f2f08", "_f082f")
# How long a text may get, by function and argument; others have a limit of the ABI.
LIMITS = {
    "Info_get": "std::int64_t{valuelen} + 1",
    "Info_get_string": "buflen_",
    "Session_get_nth_pset": "pset_len == nullptr ? 0 : *pset_len",
    "Comm_get_name": "kAbi.limits.object_name",
    "Type_get_name": "kAbi.limits.object_name",
    "Error_string": "kAbi.limits.error_string",
    "Get_processor_name": "kAbi.limits.processor_name",
    "Get_library_version": "kAbi.limits.library_version",
    "Info_get_nthkey": "kAbi.limits.info_key",
}
# What older programs call by another name, with the same arguments.
OLD_NAMES = {
    "Address": "Get_address",
    "Type_struct": "Type_create_struct",
    "Type_hvector": "Type_create_hvector",
    "Type_hindexed": "Type_create_hindexed",
    "Errhandler_create": "Comm_create_errhandler",
    "Errhandler_get": "Comm_get_errhandler",
    "Errhandler_set": "Comm_set_errhandler",
}


@dataclass
class Piece:
    """What an argument adds to an entry point."""

    parameter: str = ""
    before: list[str] = field(default_factory=list)
    refused: str = ""  # a condition
    asked: str = ""  # how the refusal is found
    passed: str = ""
    after: list[str] = field(default_factory=list)


def is_conversion(row: Row) -> bool:
    """Say whether it makes handles of integers, integers of handles, or statuses of statuses."""
    return row.name.endswith(CONVERSIONS)


def _object(argument: Argument) -> Piece:
    name, kind = argument.name, OBJECTS[argument.kind]
    if argument.array:
        const = "" if argument.written else "const "
        return Piece(f"{const}Handle* {name}", passed=f"Handles<{kind}>(kAbi, {name})")
    local = f"{name}_"
    if not argument.written:
        null = f"{local} == nullptr"
        return Piece(
            f"Handle {name}",
            [f"{kind}* const {local} = object_in<{kind}>({name});"],
            f"({null} && !is_null<{kind}>({name}))" if argument.nullable else null,
            f'asked<{kind}>("{name}", {name}, {"true" if argument.nullable else "false"})',
            local,
        )
    if argument.direction == ">":
        return Piece(
            f"Handle* {name}",
            [f"{kind}* {local} = nullptr;"],
            f"{name} == nullptr",
            f'asked("{name}", {name})',
            local,
            [f"if (code == kSuccess) *{name} = handle_out({local});"],
        )
    nullable = "true" if argument.nullable else "false"
    refused = f"{local} == nullptr"
    if argument.nullable:
        refused = f"({refused} && ({name} == nullptr || !is_null<{kind}>(*{name})))"
    return Piece(
        f"Handle* {name}",
        [
            f"{kind}* const {name}_was = {name} == nullptr ? nullptr : object_in<{kind}>(*{name});",
            f"{kind}* {local} = {name}_was;",
        ],
        refused,
        f'asked_at<{kind}>("{name}", {name}, {nullable})',
        local,
        [f"if ({local} != {name}_was) *{name} = handle_out({local});"],
    )


def _memory(argument: Argument, row: Row) -> Piece | None:
    """Buffers, functions, texts and other addresses; None: a number."""
    name, kind = argument.name, argument.kind
    if kind == "buffer":
        const = "" if argument.written else "const "
        return Piece(f"{const}void* {name}", passed=f"buffer_in({name})")
    if kind == "location":
        return Piece(f"const void* {name}", passed=name)
    if kind == "attached":
        at = f"*static_cast<void**>({name})"
        check = (f"{name} == nullptr", f'asked("{name}", {name})')
        after = [f"if (code == kSuccess) {at} = buffer_out({at});"]
        return Piece(f"void* {name}", [], *check, f"static_cast<void**>({name})", after)
    if kind == "address" or (kind == "state" and argument.written):
        check = (f"{name} == nullptr", f'asked("{name}", {name})')
        return Piece(f"void* {name}", [], *check, f"static_cast<void**>({name})")
    if kind == "state":
        return Piece(f"void* {name}", passed=name)
    if kind == "status":
        if argument.written:
            return Piece(f"void* {name}", passed=f"StatusOut(kAbi, {name})")
        return Piece(f"const void* {name}", passed=f"StatusOut(kAbi, const_cast<void*>({name}))")
    if kind == "function":
        return Piece(f"Function {name}", passed=name)
    star, address = ("*", "") if argument.written else ("", "&")
    if kind == "argc":
        return Piece(f"int{star} {name}", passed=f"{address}{name}")
    if kind == "argv":
        return Piece(f"char**{star} {name}", passed=f"{address}{name}")
    if kind == "length":
        return Piece(f"int* {name}", [], f"{name} == nullptr", f'asked("{name}", {name})')
    if kind != "string":
        return None
    if not argument.written:
        return Piece(f"const char* {name}", passed=f"text_in({name})")
    length = next((a.name for a in row.arguments if a.kind == "length"), "nullptr")
    told = ", TextOut::Told::kNeeded" if row.name == "Session_get_nth_pset" else ""
    return Piece(f"char* {name}", passed=f"TextOut({name}, {LIMITS[row.name]}, {length}{told})")


def _array(argument: Argument, wide: bool) -> Piece:
    name, kind = argument.name, argument.kind
    is_wide = kind in LONG and (wide or kind != "count")
    number = "std::int64_t" if is_wide else "int"
    const, view = ("", "OutInts") if argument.written else ("const ", "IntArray")
    if argument.twin_only and not wide:
        return Piece(passed=f"{view}()")
    meaning = f", Meaning::{MEANINGS[kind]}" if kind in MEANINGS else ""
    at = f"weights_in({name})" if kind == "weight" else name
    flag = "true" if is_wide else "false"
    return Piece(f"{const}{number}* {name}", passed=f"{view}(kAbi, {at}, {flag}{meaning})")


def _number(argument: Argument, wide: bool) -> Piece:
    name, kind, local = argument.name, argument.kind, f"{argument.name}_"
    is_long = kind in LONG
    is_wide = is_long and (wide or kind != "count")
    c_type = "std::int64_t" if is_wide else "int"
    core = "std::int64_t" if is_long else "bool" if kind == "flag" else "int"
    meaning = f"<Meaning::{MEANINGS[kind]}>" if kind in MEANINGS else ""
    absent = argument.twin_only and not wide
    if not argument.written:
        if absent:
            return Piece(passed="0")
        value = f"{name} != 0" if kind == "flag" else f"in{meaning}({name})" if meaning else name
        return Piece(f"{c_type} {name}", passed=value)
    start = "false" if kind == "flag" else "0"
    if absent:
        return Piece("", [f"{core} {local} = {start};"], passed=local)
    if argument.direction == "=":
        value = f"in{meaning}(*{name})" if meaning else f"*{name}"
        start = f"{name} == nullptr ? {start} : {value}"
    out = f"out{meaning}({local})" if meaning else local
    if kind == "flag":
        out = f"{local} ? 1 : 0"
    elif is_long and not is_wide:
        out = f"narrow({local})"
    return Piece(
        f"{c_type}* {name}",
        [f"{core} {local} = {start};"],
        f"{name} == nullptr",
        f'asked("{name}", {name})',
        local,
        [f"*{name} = {out};"],
    )


def piece(argument: Argument, row: Row, wide: bool) -> Piece:
    """Return what an argument adds to the entry point of its row."""
    if argument.kind in OBJECTS:
        return _object(argument)
    memory = _memory(argument, row)
    if memory is not None:
        return memory
    return _array(argument, wide) if argument.array else _number(argument, wide)


def _blamed(row: Row) -> str:
    """Whose handler hears of a failure: the first communicator's, or the session's."""
    given = [a for a in row.arguments if a.direction != ">" and not a.array]
    comm = next((f"{a.name}_" for a in given if a.kind == "comm"), "nullptr")
    session = next((f", {a.name}_" for a in given if a.kind == "session"), "")
    return f"{comm}{session}"


def _alias(name: str, target: str) -> str:
    return f'extern "C" HOLDFAST_MPI_WEAK({target}) decltype({target}) {name};'


def entry(row: Row, wide: bool, written: bool) -> Iterator[str]:
    """Yield the lines of one entry point and its alias."""
    suffix = "_c" if wide else ""
    name = f"{row.name}{suffix}"
    pieces = [piece(a, row, wide) for a in row.arguments]
    results = {"": "int", "double": "double", "aint": "std::int64_t", "int": "int"}
    given = [p.parameter for p in pieces if p.parameter]
    parameters = ", ".join(given if written else [text.rsplit(" ", 1)[0] for text in given])
    yield f'extern "C" HOLDFAST_MPI {results[row.result]} PMPI_{name}({parameters}) {{'
    if not written:
        yield f'  return refuse_unsupported(kAbi, "MPI_{name}");'
        yield "}"
        yield _alias(f"MPI_{name}", f"PMPI_{name}")
        return
    yield f'  Call call(kAbi, "MPI_{name}"{", true" if wide else ""});'
    for p in pieces:
        yield from (f"  {line}" for line in p.before)
    refused = [p.refused for p in pieces if p.refused]
    if not row.anytime:
        refused.insert(0, "!call.may_begin()")
    blamed = _blamed(row)
    if refused:
        asked = ", ".join(p.asked for p in pieces if p.asked)
        yield f"  if ({' || '.join(refused)}) [[unlikely]] {{"
        yield f"    return refuse(call, {{{asked}}}, {blamed});"
        yield "  }"
    passed = ", ".join(["call", *(p.passed for p in pieces if p.passed)])
    if row.result:
        yield f"  return body::{row.name}({passed});"
    else:
        yield f"  const int code = body::{row.name}({passed});"
        for p in pieces:
            yield from (f"  {line}" for line in p.after)
        yield f"  return call.end(code, {blamed});"
    yield "}"
    yield _alias(f"MPI_{name}", f"PMPI_{name}")


def conversion(row: Row) -> Iterator[str]:
    """Yield an entry point between handles and integers, or between statuses."""
    begin = 'extern "C" HOLDFAST_MPI'
    kind = row.arguments[0].kind if row.result == "int" else row.result
    if row.name.startswith("Status_"):
        first, second = (argument.name for argument in row.arguments)
        yield f"{begin} int PMPI_{row.name}(const void* {first}, void* {second}) {{"
        yield f'  Call call(kAbi, "MPI_{row.name}");'
        yield f'  return copy_status(call, {{"{first}", {first}}}, {{"{second}", {second}}});'
    elif kind in ABSENT:
        # The ABI's type of these handles, and what it makes of them, are in its abi.h.
        absent = f"Absent{kind.capitalize()}"
        if row.result == "int":
            yield f"{begin} int PMPI_{row.name}({absent}::Handle handle) {{"
            yield f"  return {absent}::integer_of(handle);"
        else:
            yield f"{begin} {absent}::Handle PMPI_{row.name}(int integer) {{"
            yield f"  return {absent}::handle_of(integer);"
    elif row.result == "int":
        yield f"{begin} int PMPI_{row.name}(Handle handle) {{"
        yield f"  return integer_of<{OBJECTS[kind]}>(handle);"
    else:
        yield f"{begin} Handle PMPI_{row.name}(int integer) {{"
        yield f"  return handle_of<{OBJECTS[kind]}>(integer);"
    yield "}"
    yield _alias(f"MPI_{row.name}", f"PMPI_{row.name}")


def unsupported(name: str) -> Iterator[str]:
    """Yield an entry point that refuses, whatever it is given."""
    # As wide as any result: a caller that wants a pointer must not get half of one.
    yield f'extern "C" HOLDFAST_MPI std::intptr_t PMPI_{name}() {{'
    yield f'  return refuse_unsupported(kAbi, "MPI_{name}");'
    yield "}"
    yield _alias(f"MPI_{name}", f"PMPI_{name}")


# Of MPI-1, with arguments that no function of today has.
_OLD_BOUNDS = """
extern "C" HOLDFAST_MPI int PMPI_Type_extent(Handle datatype, std::int64_t* extent) {
  std::int64_t lower = 0;
  return PMPI_Type_get_extent(datatype, &lower, extent);
}
extern "C" HOLDFAST_MPI int PMPI_Type_lb(Handle datatype, std::int64_t* lower) {
  std::int64_t extent = 0;
  return PMPI_Type_get_extent(datatype, lower, &extent);
}
extern "C" HOLDFAST_MPI int PMPI_Type_ub(Handle datatype, std::int64_t* upper) {
  std::int64_t lower = 0;
  std::int64_t extent = 0;
  const int code = PMPI_Type_get_extent(datatype, &lower, &extent);
  if (code == kSuccess) *upper = lower + extent;
  return code;
}
"""


def old_names(rows: list[Row]) -> Iterator[str]:
    """Yield what programs of MPI-1 call, in the file that has `rows`."""
    here = {row.name for row in rows}
    for name, target in OLD_NAMES.items():
        if target in here:
            yield _alias(f"PMPI_{name}", f"PMPI_{target}")
            yield _alias(f"MPI_{name}", f"PMPI_{target}")
    if "Type_get_extent" in here:
        yield _OLD_BOUNDS
        for name in ("Type_extent", "Type_lb", "Type_ub"):
            yield _alias(f"MPI_{name}", f"PMPI_{name}")


def source(abi: str, rows: list[Row], refused: list[str], written: set[str]) -> str:
    """Return a file of entry points."""
    lines: list[str] = []
    for row in rows:
        if is_conversion(row):
            lines += conversion(row)
            continue
        lines += entry(row, False, row.name in written)
        if row.has_twin():
            lines += entry(row, True, row.name in written)
    for name in refused:
        lines += unsupported(name)
    if abi != "standard":
        lines += old_names(rows)
    body = "\n".join(lines)
    return f"""// Written by bindings/mpi/generate.py of functions.table.
#include "mpi/abi/{abi}/abi.h"
#include "mpi/abi/entry.h"
#include "mpi/calls.h"

using namespace holdfast::mpi;
using namespace holdfast::mpi::entry;

{body}
"""
