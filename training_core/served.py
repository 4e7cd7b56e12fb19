"""Whether a server started this process: then relative names in a config lead below its data folder alone."""

import os

VARIABLE = "TROUPE_SERVED"
"""Environment variable that launchers set to 1."""


def served() -> bool:
    """Whether a server started this process."""
    return os.environ.get(VARIABLE, "") == "1"
