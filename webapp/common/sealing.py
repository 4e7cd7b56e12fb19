"""Encryption of secrets in the database, with keys derived from TROUPE_SECRET_KEY.

The database, a dump or a backup reveals nothing without that key. Uses Fernet (AES-128-CBC with HMAC-SHA256) with one key
per purpose, derived by HKDF (RFC 5869), so that a text encrypted for one purpose cannot be used for another.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from training_core.errors import TroupeError


class Unreadable(TroupeError):
    """The text was encrypted under another TROUPE_SECRET_KEY, or was modified."""


def seal(text: str, purpose: str) -> str:
    """Encrypt the text; the result differs every time. Raises ImproperlyConfigured without a secret key."""
    if settings.SECRET_KEY == settings.NO_SECRET_KEY:
        raise ImproperlyConfigured(
            "set TROUPE_SECRET_KEY to the value of the web processes: it encrypts the secrets"
        )
    return _cipher(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, purpose: str) -> str:
    """Decrypt a text encrypted for this purpose. Raises Unreadable."""
    try:
        return _cipher(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise Unreadable("it was encrypted under another TROUPE_SECRET_KEY; enter it again") from error


def _cipher(purpose: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=f"troupe: {purpose}".encode())
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
