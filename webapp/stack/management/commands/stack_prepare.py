"""`stack_prepare`: all steps between a running database and the first page. Prints {"login": URL} for `up`."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.config import environment as env
from webapp.stack.setup import collect_static, local_token_ensure, migrate, owner_login, wait_for_database


class Command(BaseCommand):
    """Called by `up`; idempotent."""

    help = (
        "Migrate (after a dump), collect static files, create the local owner, their token and a login link."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises StackError if the database cannot be reached or dumped."""
        binaries = env.text("TROUPE_PG_BINARIES")
        collected = collect_static()
        wait_for_database(within=60 if binaries else 20)
        count = migrate(
            env.text("DATABASE_URL"), settings.TROUPE_HOME / "backups", Path(binaries) if binaries else None
        )
        self.stderr.write(
            f"{count} migrations were applied; static files {'collected' if collected else 'unchanged'}"
        )
        local_token_ensure(
            settings.TROUPE_URL, settings.TROUPE_PUBLIC_URL, settings.TROUPE_HOME / "local.json"
        )
        self.stdout.write(json.dumps({"login": owner_login(settings.TROUPE_PUBLIC_URL)}))
