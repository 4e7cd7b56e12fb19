"""Secrets that are shown once and stored as a digest."""

import hashlib
import secrets

PREFIX = "troupe_"
"""Prefix of every API token, so that people, logs and scanners recognise one."""


def new_secret(prefix: str = "") -> str:
    """Return 256 random bits as URL-safe text."""
    return prefix + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """Return the SHA-256 digest as hex. A plain hash is sufficient: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
