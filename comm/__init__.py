"""Groups of ranks that exchange NumPy arrays and torch tensors."""

from holdfast.comm.elastic import join
from holdfast.comm.group import Group
from holdfast.comm.host_tensor import HostTensor
from holdfast.comm.launch import init
from holdfast.comm.outcome import Outcome, View
from holdfast.comm.state.sync import SyncReport
from holdfast.comm.store import DirectoryStore
from holdfast.comm.work import Work

__all__ = [
    "DirectoryStore",
    "Group",
    "HostTensor",
    "Outcome",
    "SyncReport",
    "View",
    "Work",
    "init",
    "join",
]
