"""Texts that the database holds and must not reveal: encrypted under a key that follows from TROUPE_SECRET_KEY.

Whoever reads the database, a dump of it or a backup learns nothing without that key. Fernet (AES-128-CBC with HMAC-SHA256) under a
key by HKDF (RFC 5869), one per purpose, so that what was sealed for one is of no use for another.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from training_core.errors import TroupeError


class Unreadable(TroupeError):
    """It was sealed under another TROUPE_SECRET_KEY, or was changed since."""


def seal(text: str, purpose: str) -> str:
    """The text, encrypted; another one every time. Raises ImproperlyConfigured where there is no secret key."""
    if settings.SECRET_KEY == settings.NO_SECRET_KEY:
        raise ImproperlyConfigured(
            "set TROUPE_SECRET_KEY, the same as the web processes have: secrets are encrypted with it"
        )
    return _cipher(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, purpose: str) -> str:
    """What was sealed for this purpose. Raises Unreadable."""
    try:
        return _cipher(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise Unreadable("it was encrypted under another TROUPE_SECRET_KEY; give it anew") from error


def _cipher(purpose: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=f"troupe: {purpose}".encode())
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
