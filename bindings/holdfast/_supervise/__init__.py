"""Processes of ranks: how they are started, awaited, started again, and taken over by spares.

`supervisor` is the one loop, of ``holdfast run`` (all ranks of a host) and of ``holdfast respawn``
(one rank, whose launcher has started its supervisor). Nothing here imports torch, but for what runs
in a process of its own.
Why: docs/decisions/0191-one-supervisor-with-spares.md
"""
