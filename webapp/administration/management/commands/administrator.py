"""`administrator USERNAME`: who may use the Django admin."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.audit import audit_note
from webapp.accounts.models import User


class Command(BaseCommand):
    """Makes somebody an administrator, or ends it."""

    help = "Let a person use the Django admin at /admin/, or no longer. Works beside a running stack."

    def add_arguments(self, parser: CommandParser) -> None:
        """The person, and which way."""
        parser.add_argument("username")
        parser.add_argument("--remove", action="store_true", help="they are administrator no longer")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for an unknown person."""
        username, on = options["username"], not options["remove"]
        user = User.objects.filter(username=username).first()
        if user is None:
            raise CommandError(
                f"There is no account {username!r}; make it with login_link {username} --create"
            )
        user.is_superuser = user.is_staff = on
        user.save(update_fields=["is_superuser", "is_staff"])
        audit_note(AnonymousUser(), None, "administrator.make" if on else "administrator.remove", username)
        self.stdout.write(f"{username} {'may' if on else 'may no longer'} use /admin/")
