"""Options: one value object with defaults, from arguments or from the environment."""

from __future__ import annotations

import difflib
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields

from holdfast import _core
from holdfast.compress.codec import Codec, codec_text
from holdfast.errors import ConfigError

PREFIX = "HOLDFAST_"
# Variables with this prefix that are no options: how ranks find each other, how torch is found.
_OTHER = frozenset({"HOLDFAST_STORE", "HOLDFAST_TORCH_DIR"})
_PEER_LOSS = ("continue", "raise")
_RESET_TRUST = ("none", "lan")
# Of the option on_hole, and of calls that say it themselves.
HOLES = ("raise", "zero")
_TEXTS = (
    "address",
    "host_id",
    "algorithm",
    "plan",
    "coordinator",
    "http",
    "flight_dir",
    "cuda_driver",
    "cuda_ipc",
    "cuda_codec",
)
_SIZES = ("codec_min_bytes", "cuda_slice_bytes", "cuda_ipc_min_bytes", "cuda_codec_min_bytes")
_LONGEST_S = 365 * 24 * 3600.0
# With what a variable is right, as far as it alone can tell: a plan may be about to be made, and
# silence is three heartbeats or more. All options together tell the rest.
_BESIDE: dict[str, dict[str, object]] = {
    "plan": {"tune": True},
    "heartbeat": {"silence": _LONGEST_S},
    "silence": {"heartbeat": 0.001},
}


@dataclass(frozen=True, slots=True)
class Options:
    """How a process takes part in its groups. Bad values are refused when it is made.

    Parameters
    ----------
    transports : tuple of str
        Transports that may be used: ``"shm"`` inside a host, and beside it or alone one that goes
        everywhere: ``"tcp"``, or ``"ucx"`` for InfiniBand and RoCE, which needs UCX's library
        (``holdfast info`` says whether it is there) and is to be set on all ranks.
        ``HOLDFAST_TRANSPORTS``, comma separated.
    timeout : float
        Time limit of an op in seconds, from start to end. ``HOLDFAST_TIMEOUT``.
    connect_timeout : float
        Time limit in seconds for all members of a new group to appear.
        ``HOLDFAST_CONNECT_TIMEOUT``.
    address : str
        Numeric address to listen on; empty: all interfaces. ``HOLDFAST_ADDRESS``.
    port : int
        TCP port to listen on; 0 lets the system choose. ``HOLDFAST_PORT``.
    host_id : str
        Who counts as "the same host"; empty: found out. ``HOLDFAST_HOST_ID``.
    algorithm : str
        Algorithm to use wherever it serves; empty: the cost model chooses.
        ``HOLDFAST_ALGORITHM``.
    plan : str
        File with a table of plans (``holdfast plan``), which says what algorithm is fastest where;
        empty: the cost model with built-in constants. ``HOLDFAST_PLAN``.
    tune : bool
        Measure at its first use what the table lacks, and, with a file, write it there. Such a
        first call takes some tens of others' time. ``HOLDFAST_TUNE``, 1 or 0.
    fault_tolerance : bool
        Repair ops that a lost rank cut off, and go on among the survivors. Without it the first
        loss ends the group. ``HOLDFAST_FAULT_TOLERANCE``, 1 or 0.
    on_peer_loss : str
        What a loss means: ``"continue"``, or ``"raise"`` PeerLost on every survivor, from the same
        op on, until ``advance()``. ``HOLDFAST_ON_PEER_LOSS``.
    on_hole : str
        What it means that a gathered result (all_gather, all_to_all, gather) lacks the block of a
        rank that is away: ``"raise"`` PeerLost on every survivor, naming those ranks, while the
        group goes on; or ``"zero"``: zeros there, and the ranks in the outcome. Reductions have no
        holes. Calls can say it themselves. ``HOLDFAST_ON_HOLE``.
    heartbeat : float
        Seconds between two signs of life. ``HOLDFAST_HEARTBEAT``.
    silence : float
        Seconds after which a rank of which nothing comes is silent, and may be voted out; three
        heartbeats or more. A rank of the same host whose process lives and is not stopped never
        is, however long it waits for its turn on a core. ``HOLDFAST_SILENCE``.
    trust_resets : str
        Whether a connection that is closed from the other side proves that its process has ended:
        ``"none"``: no; the process is asked for, and the connection made again. ``"lan"``: yes.
        Unsafe: where a firewall, or an address translation that forgets, closes the connections of
        living ranks, both sides go on alone. ``HOLDFAST_TRUST_RESETS``.
    time_slice : float
        Seconds, 0.0001 to 0.1: the pieces in which threads that wait for other ranks get their
        share of a core, which stays what it was. With short ones a rank that is woken beside a
        busy process, or beside other ranks, goes on at once (Linux 6.12 or newer; nothing happens
        elsewhere). 0 leaves threads as they are. ``HOLDFAST_TIME_SLICE``.
    coordinator : str
        ``"host:port"`` or ``"host:port/NAME"`` of the job's coordinator; empty: the lowest
        living rank does its work.
        ``HOLDFAST_COORDINATOR``.
    http : str
        ``"host:port"`` where this process serves ``/metrics``, ``/healthz``, ``/readyz`` and
        ``/flight``; port 0 lets the system choose, no host is loopback, ``0.0.0.0`` all interfaces;
        empty: nowhere. ``HOLDFAST_HTTP``.
    flight_dir : str
        Folder of the flight record, a file of the last ops that outlives the process; empty: in
        memory only. ``HOLDFAST_FLIGHT_DIR``.
    codec : str or Codec
        What sums and averages of floating elements travel as: ``"int8"``, ``holdfast.Codec(...)``;
        empty: as they are. Copies, integers and small arrays never use it. There is no error
        feedback: with one bit models do not learn. A lossless one, ``"bfloat"`` or ``"zstd"``,
        also carries what all_gather, broadcast and all_to_all of equal blocks move, of every dtype
        that it takes. ``HOLDFAST_CODEC``, for example ``int8(block=64,stochastic)``.
    codec_min_bytes : int
        From how many bytes on. ``HOLDFAST_CODEC_MIN_BYTES``.
    cuda_driver : str
        Whose GPUs: empty: the system's CUDA driver, opened when a GPU's memory is first passed;
        ``"emulated"``: a device made of host memory, for tests; ``"none"``.
        ``HOLDFAST_CUDA_DRIVER``.
    cuda_slice_bytes : int
        Pieces in which large collectives on a GPU's memory are copied and exchanged, so that one
        is copied while another travels; all ranks alike. ``HOLDFAST_CUDA_SLICE_BYTES``.
    cuda_ipc : str
        Whether ranks of one host read each other's device memory where it lies: ``"auto"``, where
        their GPUs reach each other; ``"off"``: always through the host. All ranks alike.
        ``HOLDFAST_CUDA_IPC``.
    cuda_ipc_min_bytes : int
        From how many bytes on. ``HOLDFAST_CUDA_IPC_MIN_BYTES``.
    cuda_codec : str
        Whether collectives with a codec on a GPU's memory are encoded and decoded by the GPU, so
        that its bus carries frames only: ``"auto"``, where it can; ``"off"``: by the processor.
        All ranks alike. ``HOLDFAST_CUDA_CODEC``.
    cuda_codec_min_bytes : int
        From how many bytes on, before they are encoded. ``HOLDFAST_CUDA_CODEC_MIN_BYTES``.

    Raises
    ------
    ConfigError
        Naming the option, its value, and what is accepted.
    """

    transports: tuple[str, ...] = ("shm", "tcp")
    timeout: float = 1800.0
    connect_timeout: float = 300.0
    address: str = ""
    port: int = 0
    host_id: str = ""
    algorithm: str = ""
    plan: str = ""
    tune: bool = False
    fault_tolerance: bool = True
    on_peer_loss: str = "continue"
    on_hole: str = "raise"
    heartbeat: float = 0.5
    silence: float = 10.0
    trust_resets: str = "none"
    time_slice: float = 0.0001
    coordinator: str = ""
    http: str = ""
    flight_dir: str = ""
    codec: str | Codec = ""
    codec_min_bytes: int = 64 * 1024
    cuda_driver: str = ""
    cuda_slice_bytes: int = 4 * 1024 * 1024
    cuda_ipc: str = "auto"
    cuda_ipc_min_bytes: int = 1024 * 1024
    cuda_codec: str = "auto"
    cuda_codec_min_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        """Bring values to their types and refuse what cannot work."""
        object.__setattr__(self, "transports", _names("transports", self.transports))
        for name in ("timeout", "connect_timeout", "heartbeat", "silence"):
            object.__setattr__(self, name, _seconds(name, getattr(self, name)))
        object.__setattr__(self, "time_slice", _time_slice(self.time_slice))
        object.__setattr__(self, "port", _port(self.port))
        for name in ("fault_tolerance", "tune"):
            object.__setattr__(self, name, _flag(name, getattr(self, name)))
        if self.on_peer_loss not in _PEER_LOSS:
            raise _refuse("on_peer_loss", self.on_peer_loss, '"continue" or "raise"')
        if self.on_hole not in HOLES:
            raise _refuse("on_hole", self.on_hole, '"raise" or "zero"')
        if self.trust_resets not in _RESET_TRUST:
            raise _refuse("trust_resets", self.trust_resets, '"none" or "lan"')
        for name in _TEXTS:
            _text(name, getattr(self, name))
        object.__setattr__(self, "codec", codec_text(self.codec) if self.codec != "" else "")
        for name in _SIZES:
            object.__setattr__(self, name, _bytes(name, getattr(self, name)))
        _core.validate(self.native())

    def native(self) -> _core.Options:
        """Return the same values for the runtime.

        Returns
        -------
        _core.Options
            The native options.
        """
        options = _core.Options()
        options.transports = list(self.transports)
        options.timeout_s = self.timeout
        options.connect_timeout_s = self.connect_timeout
        options.address = self.address
        options.port = self.port
        options.host_id = self.host_id
        options.algorithm = self.algorithm
        options.plan = self.plan
        options.tune = self.tune
        options.fault_tolerance = self.fault_tolerance
        options.raise_on_peer_loss = self.on_peer_loss == "raise"
        options.zero_holes = self.on_hole == "zero"
        options.heartbeat_s = self.heartbeat
        options.silence_s = self.silence
        options.trust_resets = self.trust_resets == "lan"
        options.time_slice_s = self.time_slice
        options.coordinator = self.coordinator
        options.http = self.http
        options.flight_dir = self.flight_dir
        options.codec = codec_text(self.codec) if self.codec != "" else ""
        options.codec_min_bytes = self.codec_min_bytes
        options.cuda_driver = self.cuda_driver
        options.cuda_slice_bytes = self.cuda_slice_bytes
        options.cuda_ipc = self.cuda_ipc
        options.cuda_ipc_min_bytes = self.cuda_ipc_min_bytes
        options.cuda_codec = self.cuda_codec
        options.cuda_codec_min_bytes = self.cuda_codec_min_bytes
        return options

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Options:
        """Read the options from ``HOLDFAST_*`` variables; the rest keeps its default.

        Parameters
        ----------
        env : mapping, optional
            The variables; default: this process's environment.

        Returns
        -------
        Options
            Validated options.

        Raises
        ------
        ConfigError
            Naming the variable, its value, and what is accepted.
        """
        env = os.environ if env is None else env
        values: dict[str, object] = {}
        for name, variable in variables().items():
            text = env.get(variable, "").strip()
            if text == "":
                continue
            try:
                values[name] = _parse(name, text)
                cls(**{name: values[name], **_BESIDE.get(name, {})})  # type: ignore[arg-type]
            except ConfigError as error:
                accepted = str(error).partition("; accepted: ")[2]
                raise ConfigError(f"{variable} = {text!r}; accepted: {accepted}") from None
        _warn_of_unknown(env)
        return cls(**values)  # type: ignore[arg-type]


def variables() -> dict[str, str]:
    """Return the environment variable of each option.

    Returns
    -------
    dict of str to str
        By the option's name.
    """
    return {field.name: PREFIX + field.name.upper() for field in fields(Options)}


def _refuse(name: str, value: object, accepted: str) -> ConfigError:
    return ConfigError(f"option {name} = {value!r}; accepted: {accepted}")


def _names(name: str, value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, tuple | list) else ()
    if not names or not all(isinstance(part, str) for part in names):
        raise _refuse(name, value, 'a tuple of names, e.g. ("shm", "tcp")')
    return names


def _seconds(name: str, value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    number = float(value) if known else math.nan  # type: ignore[arg-type]
    if not 0 < number <= _LONGEST_S:
        raise _refuse(name, value, "a number of seconds, more than 0, at most one year")
    return number


def _time_slice(value: object) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else _seconds("time_slice", value)


def _port(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise _refuse("port", value, "a whole number, 0 to 65535")
    return value


def _bytes(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise _refuse(name, value, "a whole number of bytes, at least 0")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, value, "True or False (1 or 0)")
    return value


def _text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _refuse(name, value, "a string")


def _parse(name: str, text: str) -> object:
    """Return the value that the text stands for, or the text where it stands for none."""
    try:
        if name == "transports":
            return tuple(part.strip() for part in text.split(","))
        if name in ("fault_tolerance", "tune"):
            return {"1": True, "0": False}.get(text, text)
        if name in ("timeout", "connect_timeout", "heartbeat", "silence", "time_slice"):
            return float(text)
        if name in ("port", *_SIZES):
            return int(text)
    except ValueError:
        pass  # the option's own check refuses the text, and says what it accepts
    return text


def _warn_of_unknown(env: Mapping[str, str]) -> None:
    known = variables()
    for variable in env:
        if not variable.startswith(PREFIX) or variable in (*known.values(), *_OTHER):
            continue
        name = variable.removeprefix(PREFIX).lower()
        close = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"did you mean {known[close[0]]}?" if close else f"known: {', '.join(known.values())}"
        )
        warnings.warn(f"{variable} is no option of Holdfast; {hint}", stacklevel=3)
