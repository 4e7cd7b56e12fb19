"""Single-use login links with a limited lifetime."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import LoginLink, User
from webapp.accounts.secrets import digest_of, new_secret

LIFETIME = timedelta(hours=24)


def link_create(user: User, lifetime: timedelta = LIFETIME) -> str:
    """Create a link and return its secret; deletes the user's expired links."""
    LoginLink.objects.filter(user=user, expires_at__lt=timezone.now()).delete()
    secret = new_secret()
    LoginLink.objects.create(user=user, digest=digest_of(secret), expires_at=timezone.now() + lifetime)
    return secret


@transaction.atomic
def link_use(secret: str) -> User | None:
    """Return the user of the link on its first use; None for an unknown, used or expired link.

    The row lock makes two simultaneous clicks one login. The lookup is by digest, so its timing reveals nothing about
    the secret.
    """
    link = (
        LoginLink.objects.select_for_update(of=("self",))
        .select_related("user")
        .filter(digest=digest_of(secret))
        .first()
    )
    if (
        link is None
        or link.used_at is not None
        or link.expires_at <= timezone.now()
        or not link.user.is_active
    ):
        return None
    link.used_at = timezone.now()
    link.save(update_fields=["used_at"])
    return link.user
