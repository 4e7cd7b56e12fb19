"""The versions of Python that Troupe supports. Older ones can read this module, to print its error."""

import sys

OLDEST = (3, 11)
TESTED = ("3.11", "3.12", "3.13")
"""Versions with which all tests pass. A newer one is not refused; the server needs wheels of every package for it."""


def python_error() -> str:
    """Return why this interpreter is refused, and the remedy; empty for one that is not."""
    if sys.version_info[:2] >= OLDEST:
        return ""
    return (
        f"Troupe needs Python {', '.join(TESTED)}; this is Python {sys.version.split()[0]} ({sys.executable}). "
        f"Install one of these versions and name it: make run PYTHON=/path/to/python{TESTED[-1]}"
    )


def is_tested() -> bool:
    """Whether all tests pass with this version."""
    return ".".join(map(str, sys.version_info[:2])) in TESTED
