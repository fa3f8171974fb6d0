"""Fault tolerance for training: filled by later work."""
