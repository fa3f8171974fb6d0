"""What links cost; discovery and planning of many hosts: filled by later work."""
