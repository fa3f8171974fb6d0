"""State that all members share: chunks are compared by hash, and what differs is fetched."""
