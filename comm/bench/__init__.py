"""The collective benchmark: Holdfast beside gloo and MPI, interleaved in one run."""
