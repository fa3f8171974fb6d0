"""Fault tolerance for training: `health`, which finds out who hangs, died or is slow."""
