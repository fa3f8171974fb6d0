"""The pages of docs/reference that the program itself writes: `python -m reference` from tests/.

One module a page. Each takes what it says from the program's tables, docstrings, headers and
parsers; words that stand only here are those that join them. `tests/python/docs/test_reference.py`
fails where a page is not what these modules give.

Why: docs/decisions/0133-the-reference-is-generated.md
"""
