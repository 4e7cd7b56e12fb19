"""Mutual exclusion between processes, across all workers."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection


@contextmanager
def only_one(key: int) -> Iterator[bool]:
    """Yield whether this connection acquired the advisory lock `key`, held until the end of the block. Does not wait.

    A process that is killed loses its connection and releases the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with (
                suppress(DatabaseError),
                connection.cursor() as cursor,
            ):  # a broken connection has released the lock
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
