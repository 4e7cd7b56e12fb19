"""`manage.py up` for Django's help; manage.py itself calls webapp.stack.up directly."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from webapp.stack.up import main


class Command(BaseCommand):
    """Starts the stack and keeps it running."""

    help = "Start Postgres, Redis, Ray, the worker and the web server, and keep them running until Ctrl-C."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Exits with the stack's exit code."""
        sys.exit(main([]))
