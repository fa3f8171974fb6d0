from datetime import timedelta
from typing import Any

built_for_torch: str

class HoldfastBackend: ...

def create(
    node: object,
    store: Any,
    rank: int,
    size: int,
    group: str,
    timeout: timedelta,
    connect_timeout: timedelta,
) -> HoldfastBackend: ...
