"""Secrets that are shown once and stored as a digest."""

import hashlib
import secrets

PREFIX = "troupe_"
"""Starts every API token, so that people, logs and scanners recognise one."""


def new_secret(prefix: str = "") -> str:
    """256 random bits as URL-safe text."""
    return prefix + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """SHA-256 as hex. A plain hash is enough: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
