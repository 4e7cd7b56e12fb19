"""Between a running database and the first login: tables or migrations, static files, the owner, their token, a login link."""

import hashlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import owner_ensure
from webapp.accounts.tokens import PERSONAL_SCOPES, link_create, token_create, token_find
from webapp.stack.home import StackError, write_private
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


def collect_static() -> bool:
    """Collect the static files of the pages unless nothing has changed. Returns whether it was necessary."""
    stamp = Path(settings.STATIC_ROOT) / ".stamp"
    now = _static_stamp()
    if stamp.exists() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, clear=stamp.exists())
    stamp.write_text(now)
    return True


def owner_login(url: str) -> str:
    """Return the URL of a single-use login link for the local owner, who is created if missing."""
    owner, _ = owner_ensure()
    return f"{url}/account/link/{link_create(owner)}/"


def local_token_ensure(url: str, public_url: str, path: Path) -> None:
    """Write local.json: this server's address, that of its pages if it is another one, and the owner's token, reusing a token
    that is still active.
    """
    owner, _ = owner_ensure()
    secret = _kept_secret(path, owner)
    if not secret:
        ApiToken.objects.filter(user=owner, name="local").delete()
        _, secret = token_create(owner, "local", PERSONAL_SCOPES)
    public = {"public_url": public_url} if public_url != url else {}
    write_private(path, {"url": url, "token": secret} | public)


def _kept_secret(path: Path, owner: User) -> str:
    try:
        secret = str(json.loads(path.read_text())["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    token = token_find(secret)
    return secret if token and token.user_id == owner.pk else ""


def _static_stamp() -> str:
    """Return a stamp that changes with the source files: paths, sizes, modification times."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            facts = Path(storage.path(name)).stat()
            digest.update(f"{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
