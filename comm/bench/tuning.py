"""One rank of ``holdfast plan --measure``: ``python -m holdfast.comm.bench.tuning CONFIG R N``.

Every case is called once by a group with the option `tune`: its first use measures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import holdfast
from holdfast.comm.bench.contestants import GroupContestant
from holdfast.comm.bench.plan import Case
from holdfast.options import Options


def main() -> int:
    """Run all cases; rank 0 writes a row after each: transport, and all that is known."""
    config = json.loads(Path(sys.argv[1]).read_text())
    rank, ranks = int(sys.argv[2]), int(sys.argv[3])
    store = f"file://{config['folder']}/groups"
    with Path(config["rows"]).open("a") as rows:
        for transport in config["transports"]:
            options = Options(transports=(transport,), tune=True)
            group = holdfast.init(store, rank, ranks, options=options, name=f"tune-{transport}")
            contestant = GroupContestant(transport, group)
            for collective, size, dtype in config["cases"]:
                prepared = contestant.prepare(Case(collective, size, dtype))
                if prepared is not None:
                    prepared.call()
                if rank == 0:
                    rows.write(json.dumps([transport, group.plan]) + "\n")
                    rows.flush()
            group.barrier()
            group.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
