"""What every test has."""

from leftovers import nothing_stays

__all__ = ["nothing_stays"]
