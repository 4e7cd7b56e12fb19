"""The database before the pages start: wait for it, dump it, migrate it."""

import time
from datetime import UTC, datetime
from pathlib import Path

from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from webapp.stack.errors import StackError
from webapp.stack.postgres import dump

BACKUPS_KEPT = 5


def wait_for_database(within: float) -> None:
    """Wait until the database accepts connections. Raises StackError after `within` seconds, with the last error."""
    deadline = time.monotonic() + within
    while True:
        try:
            connection.ensure_connection()
        except OperationalError as error:
            if time.monotonic() > deadline:
                raise StackError(
                    f"The database of DATABASE_URL does not answer: {str(error).strip()}"
                ) from error
            time.sleep(0.05)
        else:
            return


def unapplied() -> int:
    """Return the number of unapplied migrations."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate(url: str, backups: Path, binaries: Path | None) -> int:
    """Apply the unapplied migrations, after a dump if the database is not empty. Returns their number.

    binaries: folder of pg_dump for a bundled database; None: no dump, backups of an external server are its operator's task.
    """
    count = unapplied()
    if not count:
        return 0
    if binaries and "django_migrations" in connection.introspection.table_names():
        dump(binaries, url, backups / f"before-migrations-{datetime.now(UTC):%Y%m%d-%H%M%S}.dump")
        for old in sorted(backups.glob("before-migrations-*.dump"))[:-BACKUPS_KEPT]:
            old.unlink()
    call_command("migrate", interactive=False, verbosity=0)
    return count
