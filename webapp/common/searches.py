"""Limits of the database's work for one request: a search by a pattern may take longer than anybody waits for it.

Every statement of the web server has a limit (LIMITED in webapp/config/environment.py); searches have a smaller one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DataError, OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from training_core.errors import ConfigError

SECONDS = 5.0
"""Time of each statement of a search."""
TOO_LONG = "The search took too long. Use a simpler pattern, or more filters."


class SearchRefused(ConfigError):
    """A search that the database cannot process, or not in time."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__({"search": reason})


@contextmanager
def search_limited(seconds: float = SECONDS) -> Iterator[None]:
    """Limit the statements within to `seconds` each, in a transaction. Raises SearchRefused."""
    try:
        with transaction.atomic(), connection.cursor() as database:
            database.execute(f"SET LOCAL statement_timeout = {1000 * seconds:.0f}")
            yield
            database.execute("SET LOCAL statement_timeout = DEFAULT")
    except (DataError, OperationalError) as error:
        if (reason := refusal_of(error)) is None:
            raise
        raise SearchRefused(reason) from error


def refusal_of(error: Exception) -> str | None:
    """Return why the database did not process what a request asks for; None if that was not the fault of the request."""
    if isinstance(error, DataError):
        return str(error).partition("\n")[0]
    return TOO_LONG if isinstance(error.__cause__, QueryCanceled) else None
