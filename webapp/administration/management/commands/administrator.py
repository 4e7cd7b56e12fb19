"""`administrator USERNAME`: grant or revoke access to the Django admin."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.audit import audit_note
from webapp.accounts.models import User


class Command(BaseCommand):
    """Grants or revokes administrator rights."""

    help = "Grant or revoke access to the Django admin at /admin/. Works while the stack is running."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the username and the --remove option."""
        parser.add_argument("username")
        parser.add_argument("--remove", action="store_true", help="revoke the administrator rights")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unknown user."""
        username, on = options["username"], not options["remove"]
        user = User.objects.filter(username=username).first()
        if user is None:
            raise CommandError(
                f"There is no account {username!r}; create it with login_link {username} --create"
            )
        user.is_superuser = user.is_staff = on
        user.save(update_fields=["is_superuser", "is_staff"])
        audit_note(AnonymousUser(), None, "administrator.make" if on else "administrator.remove", username)
        self.stdout.write(f"{username} {'may' if on else 'may no longer'} use /admin/")
