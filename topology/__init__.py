"""Discovery and planning: filled by later work."""
