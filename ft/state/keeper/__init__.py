"""The keeper: a small process beside each rank that holds its snapshots, without torch."""
