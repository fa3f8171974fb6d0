"""From bodies to files: each rank's own, then a manifest, then less of what is older.

Whoever writes a file tells the others its `File`; once all have theirs, the manifest is written. A
state without one does not exist, whatever lies in its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import xxhash

from holdfast.errors import ConfigError, HoldfastError
from holdfast.ft.state.files import container, manifest
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Place
from holdfast.ft.state.layout.head import Head


def write_body(
    place: Place, head: Head, body: memoryview, tiles: Sequence[int] | None = None
) -> File:
    """Write one rank's file.

    Parameters
    ----------
    place : Place
        The run's.
    head : Head
        What the body is.
    body : memoryview
        The bytes.
    tiles : sequence of int, optional
        XXH3-64 of its tiles. Default: they are hashed here.

    Returns
    -------
    File
        For the manifest.

    Raises
    ------
    ConfigError
        When the body is shorter than the head says.
    SystemFailure
        When the file cannot be written.
    """
    view = memoryview(body).cast("B")
    if view.nbytes < head.body:
        raise ConfigError(f"a body of {view.nbytes} bytes; accepted: the head's {head.body}")
    view = view[: head.body]
    table = container.of_body(head, container.hashes(view) if tiles is None else tiles)
    folder = manifest.folder_name(head.step, head.epoch)
    return _write(place, folder, manifest.body_name(head.rank), table, view)


def file_of_body(head: Head, tiles: Sequence[int]) -> File:
    """Return what a rank's file is, without its body.

    Parameters
    ----------
    head : Head
        What the body is.
    tiles : sequence of int
        XXH3-64 of its tiles.

    Returns
    -------
    File
        For the manifest.
    """
    table = container.of_body(head, tiles)
    name = manifest.body_name(head.rank)
    return File(name, len(table) + head.body, xxhash.xxh3_128_hexdigest(table))


def write_parity(
    place: Place,
    head: Head,
    said: dict[str, object],
    data: memoryview | bytes,
    tiles: Sequence[int] | None = None,
) -> File:
    """Write the parity that a rank holds.

    Parameters
    ----------
    place : Place
        The run's.
    head : Head
        Of the holder: job, step, epoch and rank are read.
    said : dict
        Of whom it is, and by what code: whole numbers, texts and lists.
    data : bytes-like
        The parity.
    tiles : sequence of int, optional
        XXH3-64 of its tiles. Default: they are hashed here.

    Returns
    -------
    File
        For the manifest.
    """
    view = memoryview(data).cast("B")
    of = {"job": head.job, "step": head.step, "epoch": head.epoch, "rank": head.rank}
    hashes = container.hashes(view) if tiles is None else tiles
    table = container.of_parity({**said, **of}, view.nbytes, hashes)
    folder = manifest.folder_name(head.step, head.epoch)
    return _write(place, folder, manifest.parity_name(head.rank), table, view)


def commit(place: Place, whole: Manifest) -> None:
    """Make files a state; from here on it is found.

    Parameters
    ----------
    place : Place
        The run's. Of disks that hosts do not share, each gets the manifest of all files.
    whole : Manifest
        What all ranks have written.
    """
    place.write(whole.folder, manifest.NAME, [whole.to_bytes()])


def prune(place: Place, keep: int = 1) -> list[str]:
    """Remove states that are older than enough newer ones that verify.

    Parameters
    ----------
    place : Place
        The run's.
    keep : int
        How many that verify stay; at least one.

    Returns
    -------
    list of str
        Folders that were removed. Those without a manifest go with them where they are older.
    """
    if keep < 1:
        raise ConfigError(f"keep {keep}; accepted: at least 1")
    found = sorted(
        (step, name) for name in place.folders() if (step := manifest.of_folder(name)) is not None
    )
    good = 0
    removed = []
    for _, name in reversed(found):
        if good >= keep:
            place.remove(name, manifest.NAME)
            removed.append(name)
        elif is_whole(place, name):
            good += 1
    return removed


def remove_older(place: Place, folder: str) -> list[str]:
    """Remove all states that are older than one that is known to verify.

    Parameters
    ----------
    place : Place
        The run's.
    folder : str
        The state's.

    Returns
    -------
    list of str
        Folders that were removed.
    """
    newest = manifest.of_folder(folder)
    removed = []
    for name in place.folders():
        step = manifest.of_folder(name)
        if step is not None and newest is not None and step < newest:
            place.remove(name, manifest.NAME)
            removed.append(name)
    return removed


def is_whole(place: Place, folder: str) -> bool:
    """Return whether every byte of a state is as it was written.

    Parameters
    ----------
    place : Place
        The run's.
    folder : str
        The state's.
    """
    try:
        return not Saved.open(place, folder).problems()
    except HoldfastError:
        return False


def newest(place: Place, job: str | None = None) -> Saved | None:
    """Return the newest state of which every byte is as it was written, or can be made again.

    Parameters
    ----------
    place : Place
        The run's.
    job : str, optional
        Whose; default: anyone's.
    """
    for saved in states(place):
        if (job is None or saved.manifest.job == job) and saved.is_enough():
            return saved
    return None


def _write(place: Place, folder: str, name: str, table: bytes, data: memoryview) -> File:
    def parts() -> Iterator[memoryview | bytes]:
        yield table
        yield data

    size = place.write(folder, name, parts())
    return File(name, size, xxhash.xxh3_128_hexdigest(table))
