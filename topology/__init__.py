"""What links cost: constants fitted to measurements, and what a codec is worth on a link."""
