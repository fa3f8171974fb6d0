"""What one rank has of one state: a head of entries, and a body of bytes.

`entry`, `head`, `boxes` and `plan` are pure and know no torch, so that a process without it can
read and check images. `flatten`, `local`, `capture`, `fill` and `restore` are for who trains.
Why: docs/decisions/0186-an-image-is-a-head-and-a-body.md
"""
