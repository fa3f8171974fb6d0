"""Data that counts once: who trains on which samples, agreed by all members.

`ledger` is the pure core, `permutation` the shuffle that nobody stores, and `sampler` what torch's
DataLoader takes. Why: docs/decisions/0180-data-is-leased.md
"""
