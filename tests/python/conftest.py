"""What every test has."""

import os

from leftovers import nothing_stays

__all__ = ["nothing_stays"]

# Buffered, a line of Python's is one write, and no other rank's line falls into it. What starts
# the tests may have said otherwise, and every rank they start would inherit it.
os.environ.pop("PYTHONUNBUFFERED", None)
