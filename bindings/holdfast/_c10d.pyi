from datetime import timedelta
from typing import Any

built_for_torch: str

class HoldfastBackend:
    def live_ranks(self) -> list[int]: ...
    is_fresh: bool
    priority: int
    on_hole: str | None
    def advance(self, timeout: timedelta) -> tuple[int, list[int], list[int]]: ...

def process_ends() -> None: ...
def drain_callbacks(limit: timedelta) -> bool: ...
def end_callbacks() -> None: ...
def wrap(group: object, timeout: timedelta) -> HoldfastBackend: ...
def tell_wait(work: object, whole: bool) -> None: ...
def outcome(work: object) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]: ...
def create(
    node: object,
    store: Any,
    rank: int,
    size: int,
    group: str,
    timeout: timedelta,
    connect_timeout: timedelta,
    later: bool,
    losses_raise: bool,
    ranks: list[int],
    parent: object,
) -> HoldfastBackend: ...
