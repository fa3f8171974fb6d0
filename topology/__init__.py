"""What links cost and what goes over them: maps, plans, and how a model is spread over levels.

Constants are fitted to measurements (`link_fit`), what a codec is worth on a link is predicted
(`codec_cost`), collectives are planned on a map (`forest`, `exact`), and ranks are grouped by it
(`partition`, `device_mesh`).
"""

from holdfast.topology.levels import Partition, partition
from holdfast.topology.mesh import device_mesh

__all__ = ["Partition", "device_mesh", "partition"]
