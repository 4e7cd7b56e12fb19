"""`login_link [USERNAME]`: print a single-use login link."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.models import User
from webapp.accounts.services import OWNER, user_create
from webapp.accounts.tokens import link_create


class Command(BaseCommand):
    """Creates a login link; a new user sets a password after the first login."""

    help = "Print a single-use login link, valid for 24 hours. Works while the stack is running."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the username and the --create option."""
        parser.add_argument("username", nargs="?", default=OWNER)
        parser.add_argument("--create", action="store_true", help="create the account if it does not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unknown user or an invalid name."""
        username = options["username"]
        user = User.objects.filter(username=username).first()
        if user is None and not options["create"]:
            raise CommandError(f"There is no account {username!r}; add --create to create it")
        try:
            user = user or user_create(username)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        self.stdout.write(f"{settings.TROUPE_PUBLIC_URL}/account/link/{link_create(user)}/")
