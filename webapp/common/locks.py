"""Work that one process at a time does, over all workers."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection


@contextmanager
def only_one(key: int) -> Iterator[bool]:
    """Whether this connection got the advisory lock `key`, held for the length of the block. Does not wait.

    A process that is killed loses its connection, and with it the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with suppress(DatabaseError), connection.cursor() as cursor:  # a connection that broke has let go
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
