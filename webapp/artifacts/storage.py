"""Contents of artifacts on disk: TROUPE_HOME/artifacts/PROJECT/AB/ABCD..., by SHA-256."""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from django.conf import settings

from training_core.errors import ConfigError
from webapp.accounts.models import Project

LARGEST_FILE = 8 << 30
"""Maximum bytes of one file."""
CHUNK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")


def content_path(project: Project, sha256: str) -> Path:
    """Return the path of a content. Raises ConfigError for an invalid hash."""
    if not SHA256.fullmatch(sha256):
        raise ConfigError({"sha256": "give 64 lower-case hexadecimal digits"})
    return Path(settings.TROUPE_HOME) / "artifacts" / str(project.pk) / sha256[:2] / sha256


def content_missing(project: Project, hashes: Iterable[str]) -> list[str]:
    """Return the hashes whose contents are not stored."""
    return [sha256 for sha256 in dict.fromkeys(hashes) if not content_path(project, sha256).is_file()]


def content_write(project: Project, sha256: str, read: Callable[[int], bytes]) -> int:
    """Store a content from `read(size)`, and return its bytes. Raises ConfigError if it is too large or has another hash."""
    path = content_path(project, sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{secrets.token_hex(8)}"
    digest, size = hashlib.sha256(), 0
    try:
        with draft.open("wb") as file:
            while chunk := read(CHUNK):
                size += len(chunk)
                if size > LARGEST_FILE:
                    raise ConfigError({"size": f"a file has at most {LARGEST_FILE:,} bytes"})
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise ConfigError(
                {"sha256": f"the received bytes have the hash {digest.hexdigest()}; send them again"}
            )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return size


def content_delete(project: Project, hashes: Iterable[str]) -> None:
    """Delete contents; missing ones are ignored."""
    for sha256 in hashes:
        content_path(project, sha256).unlink(missing_ok=True)
