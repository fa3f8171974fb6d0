"""Training in rounds: many local steps, then one outer step over all members.

Rounds are data (`rounds`, of the fragments that `fragments` makes); `trainer` walks them over an
exchange of holdfast.compress, and each method, a file each, says what it sends and how it mixes the
mean in. Why: docs/decisions/0175-rounds-are-data.md
"""
