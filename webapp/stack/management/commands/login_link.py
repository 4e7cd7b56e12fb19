"""`login_link [USERNAME]`: a link that logs somebody in once."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.links import link_create
from webapp.accounts.models import User
from webapp.accounts.services import OWNER, user_create


class Command(BaseCommand):
    """How a new person gets in: their first link lets them set a password."""

    help = "Print a link that logs a person in once, within 24 hours. Works beside a running stack."

    def add_arguments(self, parser: CommandParser) -> None:
        """The person, and whether to make their account."""
        parser.add_argument("username", nargs="?", default=OWNER)
        parser.add_argument("--create", action="store_true", help="make the account if there is none")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unknown person or an impossible name."""
        username = options["username"]
        user = User.objects.filter(username=username).first()
        if user is None and not options["create"]:
            raise CommandError(f"There is no account {username!r}; add --create to make it")
        try:
            user = user or user_create(username)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        self.stdout.write(f"{settings.TROUPE_URL}/account/link/{link_create(user)}/")
