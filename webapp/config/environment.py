"""Reading the process environment, loudly: a value that cannot be used stops the start and says why."""

import contextlib
import json
import os
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]


def text(name: str, default: str = "") -> str:
    """An environment variable, stripped; `default` where it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool) -> bool:
    """A yes-or-no variable. Raises ImproperlyConfigured on anything else."""
    value = text(name).lower()
    if value in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return default if not value else value in ("1", "true", "yes", "on")
    raise ImproperlyConfigured(f"{name}={value!r}: use 1 or 0")


def number(name: str, default: int) -> int:
    """A whole number. Raises ImproperlyConfigured on anything else."""
    value = text(name, str(default))
    if not value.isdigit():
        raise ImproperlyConfigured(f"{name}={value!r} is no whole number")
    return int(value)


def words(name: str) -> list[str]:
    """Words with commas between them."""
    return [word.strip() for word in text(name).split(",") if word.strip()]


def folders(name: str, default: str = "") -> list[str]:
    """Absolute folders with commas between them. Raises ImproperlyConfigured on a relative one."""
    found = [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]
    for folder in found:
        if not folder.startswith("/") or ".." in folder.split("/"):
            raise ImproperlyConfigured(
                f"{name}: {folder!r} is no absolute folder; give paths such as /data/models"
            )
    return found


def networks(name: str) -> list[str]:
    """Networks such as 10.0.0.0/8 with commas between them, or any. Raises ImproperlyConfigured on anything else."""
    found = [word.strip() for word in text(name).split(",") if word.strip()]
    for word in found:
        try:
            word == "any" or ip_network(word)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}; use networks such as 10.0.0.0/8, or any") from error
    return found


def behind_proxy() -> bool:
    """Whether a proxy of ours says who calls, and by which scheme."""
    return flag("TROUPE_BEHIND_PROXY", default=False)


def home() -> Path:
    """TROUPE_HOME, absolute; the default is var/ beside manage.py."""
    return Path(text("TROUPE_HOME", str(ROOT / "var"))).expanduser().resolve()


def join_running_stack() -> None:
    """Take addresses and secrets from the stack that runs on this home, where the user gave no database.

    So `manage.py login_link`, `migrate` or `shell` work beside `manage.py up`. What is set in the environment wins.
    """
    if text("DATABASE_URL"):
        return
    with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
        facts = json.loads((home() / "stack.json").read_text())
        os.kill(int(facts["pid"]), 0)
        for name, value in facts["environment"].items():
            os.environ.setdefault(name, value)


def database(url: str) -> dict[str, object]:
    """Django's settings for a postgres:// URL; `?host=/folder` names a unix socket's folder.

    Raises ImproperlyConfigured for another kind of database.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL must be postgres://user:password@host:port/name, not {parts.scheme}:"
        )
    query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", parts.hostname or "")),
        "PORT": str(parts.port or query.get("port", "")),
        "CONN_MAX_AGE": 0,
    }
