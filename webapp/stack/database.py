"""The database before the pages start: wait for it, create its tables or dump and migrate it."""

import time
from datetime import UTC, datetime
from pathlib import Path

from django.apps import apps
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
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


def create_tables() -> None:
    """Create the tables of an empty database from the models, and record all migrations as applied.

    The migrations give the same tables, but need more than ten times the CPU time: Django renders all related models again for each change.
    """
    with transaction.atomic():
        with connection.schema_editor() as editor:
            for model in apps.get_models():
                if model._meta.can_migrate(connection):
                    editor.create_model(model)
        executor = MigrationExecutor(connection)
        executor.recorder.ensure_schema()
        for app, name in executor.loader.graph.nodes:
            executor.recorder.record_applied(app, name)
        call_command("migrate", interactive=False, verbosity=0)  # creates content types and permissions


def migrate(url: str, backups: Path, binaries: Path | None) -> int:
    """Apply the unapplied migrations, after a dump if the database is not empty. Returns their number.

    binaries: folder of pg_dump for a bundled database; None: no dump, backups of an external server are its operator's task.
    """
    count = unapplied()
    if not count:
        return 0
    tables = connection.introspection.table_names()
    if not tables:
        create_tables()
        return count
    if binaries and "django_migrations" in tables:
        dump(binaries, url, backups / f"before-migrations-{datetime.now(UTC):%Y%m%d-%H%M%S}.dump")
        for old in sorted(backups.glob("before-migrations-*.dump"))[:-BACKUPS_KEPT]:
            old.unlink()
    call_command("migrate", interactive=False, verbosity=0)
    return count
