"""Gradient compression: filled by later work."""
