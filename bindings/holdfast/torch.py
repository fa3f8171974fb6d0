"""The PyTorch backend: ``torch.distributed.init_process_group("holdfast")``.

torch calls :func:`_autoload` on ``import torch``; the native module loads on first use.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast._torch_modules import TorchModule
    from holdfast.comm.outcome import Outcome, View
    from holdfast.comm.state.sync import SyncReport
    from holdfast.options import Options

# Callbacks of Futures have this long at exit, before the groups are closed and again after it.
_LAST_CALLBACKS = timedelta(seconds=1)


def _autoload() -> None:
    """Make the backend's name known to torch. Never raises: that would break ``import torch``."""
    try:
        import torch.distributed as dist

        if dist.is_available() and not hasattr(dist.Backend, "HOLDFAST"):
            # A name costs nothing where torch has no CUDA: tensors choose.
            dist.Backend.register_backend(
                "holdfast", _create, extended_api=True, devices=["cpu", "cuda"]
            )
    except Exception as error:
        warnings.warn(f"Holdfast could not register with torch: {error!r}", stacklevel=2)


@functools.cache
def native() -> TorchModule:
    """Load the native backend, once.

    Returns
    -------
    module
        That for the minor version of torch that is here, such as ``holdfast._c10d_2_13``.

    Raises
    ------
    ImportError
        When this installation of Holdfast has none for it.
    """
    import torch

    from holdfast import _process, _torch_modules

    module = _torch_modules.load(torch.__version__)
    _process.at_end(_before_closing, _after_closing)
    return module


def _before_closing() -> None:
    native().drain_callbacks(_LAST_CALLBACKS)
    native().process_ends()


def _after_closing() -> None:
    native().drain_callbacks(_LAST_CALLBACKS)
    native().end_callbacks()


def _create(backend_options: Any, options: Options | _OverGroup | None) -> Any:
    """Make the backend of one process group; torch's creator function (extended API).

    Parameters
    ----------
    backend_options : torch's DistributedBackendOptions
        Store, rank, size, timeout and name of the group.
    options : Options, optional
        What the caller passed as ``pg_options``.

    Returns
    -------
    HoldfastBackend
        Connected to all members.

    Raises
    ------
    ConfigError
        When `options` is something else, or cannot be used.
    Timeout
        Naming the ranks that never came.
    """
    from holdfast import _process
    from holdfast.errors import ConfigError
    from holdfast.options import Options

    c10d = native()
    if isinstance(options, _OverGroup):
        return c10d.wrap(options.capsule, backend_options.timeout)
    if options is None:
        options = Options.from_env()
    if not isinstance(options, Options):
        raise ConfigError(
            f"pg_options is a {type(options).__name__}; accepted: holdfast.Options(...)"
        )
    timeout = backend_options.timeout
    if options.timeout != _default(options, "timeout"):
        timeout = timedelta(seconds=options.timeout)
    # torch 2.14 has the seam: members come with _reconfigure().
    later = getattr(backend_options, "enable_reconfigure", False)
    backend = c10d.create(
        _process.node_capsule(options),
        backend_options.store,
        backend_options.group_rank,
        backend_options.group_size,
        backend_options.group_id or "default",
        timeout,
        timedelta(seconds=options.connect_timeout),
        later,
        list(backend_options.global_ranks_in_group),
        _default_backend(),
    )
    # The world names no ranks; groups of some of them go by its map.
    if options.measure and not later and not backend_options.global_ranks_in_group:
        _measure_first(backend, options)
    return backend


def _measure_first(backend: Any, options: Options) -> None:
    from holdfast import _core, _process
    from holdfast.comm.group import Group

    group = Group(_core.group_in(backend.capsule()), _process.node(options))
    group._measure_first(options.measure)


def _default_backend() -> Any:
    """Return the backend of torch's default group, which groups are made of; None without one."""
    import torch.distributed as dist

    world = dist.group.WORLD
    # While it is being made it has none yet.
    if world is None or not world._device_types:
        return None
    backend = _backend_in(world)
    return backend if isinstance(backend, native().HoldfastBackend) else None


@dataclasses.dataclass(frozen=True)
class _OverGroup:
    """Takes the place of options where the native group is there already."""

    capsule: object


def over_group(capsule: object, rank: int, size: int) -> Any:
    """Make torch's default process group of a native group.

    Parameters
    ----------
    capsule : object
        The native group.
    rank, size : int
        As the group has them now.

    Returns
    -------
    torch.distributed.ProcessGroup
        The default group; one that was made here before is destroyed first.

    Raises
    ------
    ConfigError
        When torch.distributed was initialised by somebody else.
    """
    import torch.distributed as dist

    from holdfast.errors import ConfigError

    global _made_here
    if dist.is_initialized():
        if not _made_here:
            raise ConfigError(
                "as_process_group: torch.distributed is initialised already; accepted: not "
                "initialised, or by as_process_group()"
            )
        dist.destroy_process_group()
    options: Any = _OverGroup(capsule)
    store = dist.HashStore()
    dist.init_process_group("holdfast", store=store, rank=rank, world_size=size, pg_options=options)
    _made_here = True
    return dist.group.WORLD


# Whether the default process group is one of over_group()'s.
_made_here = False


def _backend_in(group: Any) -> Any:
    import torch

    # "cuda:holdfast" alone has none for the CPU.
    devices = [device.type for device in group._device_types]
    device = "cpu" if "cpu" in devices or not devices else devices[0]
    return group._get_backend(torch.device(device))


def backend_of(group: Any) -> Any:
    """Return Holdfast's backend of a process group (default: the world); ConfigError without."""
    import torch.distributed as dist

    from holdfast.errors import ConfigError

    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ConfigError("torch.distributed is not initialised; call init_process_group() first")
    backend = _backend_in(group)
    if not isinstance(backend, native().HoldfastBackend):
        raise ConfigError(
            f"the group's backend is {type(backend).__name__}; accepted: a group of "
            'init_process_group("holdfast") or new_group(backend="holdfast")'
        )
    return backend


def outcome(work: Any) -> Outcome:
    """Return what the result of an op with ``async_op=True`` is made of.

    Parameters
    ----------
    work : torch.distributed.Work
        Of a holdfast group; it has ended well.

    Returns
    -------
    Outcome
        The same on every rank that survives the op.

    Raises
    ------
    ConfigError
        When it has not ended, or belongs to another backend.
    """
    from holdfast.comm.outcome import Outcome

    return Outcome(*native().outcome(work))


def live_ranks(group: Any = None) -> tuple[int, ...]:
    """Return the ranks of a process group that have a member in the current view.

    Parameters
    ----------
    group : ProcessGroup, optional
        Default: the world.
    """
    return tuple(backend_of(group).live_ranks())


def advance(group: Any = None, timeout: float = 0.0) -> View:
    """Pass a step boundary; collective over the living ranks.

    Ranks that wait to come in are admitted; after a loss with ``on_peer_loss="raise"`` the group is
    usable again from here on.

    Parameters
    ----------
    group : ProcessGroup, optional
        Default: the world.
    timeout : float
        Seconds; 0: the group's.

    Returns
    -------
    View
        Its epoch, the ranks that are there, and those that have come in.

    Raises
    ------
    Timeout, NotMember
        When the members could not agree in time; when this process was voted out.
    """
    from holdfast.comm.outcome import View

    epoch, ranks, joined = backend_of(group).advance(timedelta(seconds=timeout))
    return View(epoch, tuple(ranks), tuple(joined))


def sync(*objects: Any, group: Any = None) -> SyncReport:
    """Make modules, optimisers, schedulers and dictionaries bit-identical on all ranks.

    For the step at which ``advance()`` says that somebody has come in. Collective over the living
    ranks; what most of them have wins, newcomers only listen. A newcomer's optimiser takes over
    the others' structure, too. Each rank's random number generators stay its own: draw from (seed,
    rank, step), and a newcomer draws what its predecessor would have drawn.

    Parameters
    ----------
    *objects : objects with ``state_dict`` and ``load_state_dict``, or dictionaries
        Of tensors on the CPU or on CUDA devices, numbers, texts, and lists and dictionaries of
        them; dictionaries are updated in place. A rank's tensors stay on the devices that they are
        on, which may be others on other ranks; what a newcomer's dictionary did not have comes on
        the CPU.
    group : ProcessGroup, optional
        Default: the world.

    Returns
    -------
    SyncReport
        What was done here.

    Raises
    ------
    ConfigError
        For an object of another kind, or states that cannot be made the same.
    ProtocolError
        When all holders were lost, or tensors changed meanwhile.
    """
    from holdfast import _torch_state

    return _torch_state.sync(objects, group, backend_of(group))


def _default(options: Options, name: str) -> object:
    for field in dataclasses.fields(options):
        if field.name == name:
            return field.default
    return None
