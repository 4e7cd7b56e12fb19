"""Login links: they work once, and for a while."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import LoginLink, User
from webapp.accounts.secrets import digest_of, new_secret

LIFETIME = timedelta(hours=24)


def link_create(user: User, lifetime: timedelta = LIFETIME) -> str:
    """The secret of a new link; links of this person that ran out are deleted."""
    LoginLink.objects.filter(user=user, expires_at__lt=timezone.now()).delete()
    secret = new_secret()
    LoginLink.objects.create(user=user, digest=digest_of(secret), expires_at=timezone.now() + lifetime)
    return secret


@transaction.atomic
def link_use(secret: str) -> User | None:
    """The person it logs in, the first time; None when it is unknown, used or too old.

    The row lock makes two clicks at once one login. Looking up a digest tells nothing about the secret by its
    timing.
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
