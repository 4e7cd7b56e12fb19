"""`stack_demo PRESET`: launch the demonstration once per home. Prints {"run": id, "new": bool} for `up`."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from training_core.config.files import read_preset
from webapp.accounts.services import owner_ensure
from webapp.runs.models import Run
from webapp.runs.selectors import DEMONSTRATION
from webapp.scheduling.services import run_create


class Command(BaseCommand):
    """Called by `up`; idempotent."""

    help = "Launch the demonstration run unless the database already has one."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the preset's name."""
        parser.add_argument("preset")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises ConfigError for an unknown preset."""
        owner, project = owner_ensure()
        tagged = Run.objects.filter(owner=owner, tags__contains=[DEMONSTRATION])
        run = tagged.order_by("created_at").first()  # variations of it have its tag
        new = run is None
        if run is None:
            preset = options["preset"]
            run = run_create(
                owner, project, read_preset(preset), preset, {}, "Demonstration", [DEMONSTRATION]
            )
        self.stdout.write(json.dumps({"run": run.pk, "new": new}))
