"""Whether a server started this process: then relative paths in a config are resolved only below its data folder."""

import os

VARIABLE = "TROUPE_SERVED"
"""Environment variable that launchers set to 1."""


def served() -> bool:
    """Whether a server started this process."""
    return os.environ.get(VARIABLE, "") == "1"
