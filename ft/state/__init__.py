"""State that cannot be lost: what a job has to go on from, in memory and in files.

`layout` says what a rank has of a state and where its bytes lie, `files` writes and reads them, and
`keeper` is the process that holds them while their trainer comes and goes. Importing this package
imports neither torch nor anything that does.
Why: docs/decisions/0186-an-image-is-a-head-and-a-body.md
"""
