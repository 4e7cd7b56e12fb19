"""Lets the web server and the Celery processes import their modules while `up` migrates the database."""

import os
import time
from pathlib import Path

PREPARED = "TROUPE_PREPARED"
"""Variable with the path of a file that `up` creates once the database is migrated."""
POLL = 0.02


def wait_until_prepared() -> None:
    """Wait for the file, without a limit: a process ends with `up`. Returns at once without the variable."""
    path = os.environ.get(PREPARED)
    while path and not Path(path).exists():
        time.sleep(POLL)
