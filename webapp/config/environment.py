"""Reading of environment variables: an invalid value stops the start with an error."""

import contextlib
import json
import os
import re
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]
CONNECTIONS = "TROUPE_DATABASE_CONNECTIONS"
POOL_TIMEOUT = 5.0
"""Seconds that a request waits for a connection before it is answered by 503."""
RECONNECT_TIMEOUT = 1.0
"""Seconds of attempts to open a connection; the next request starts new ones. With more, pauses between attempts would delay the
recovery.
"""


def text(name: str, default: str = "") -> str:
    """Return an environment variable, stripped; `default` if it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool) -> bool:
    """Return a boolean variable. Raises ImproperlyConfigured for anything but 0 and 1."""
    value = text(name).lower()
    if value in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return default if not value else value in ("1", "true", "yes", "on")
    raise ImproperlyConfigured(f"{name}={value!r}: use 1 or 0")


def number(name: str, default: int) -> int:
    """Return an integer. Raises ImproperlyConfigured for other values."""
    value = text(name, str(default))
    if not value.isdigit():
        raise ImproperlyConfigured(f"{name}={value!r} is not an integer")
    return int(value)


def words(name: str) -> list[str]:
    """Return a comma-separated list of words."""
    return [word.strip() for word in text(name).split(",") if word.strip()]


def folders(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list of absolute folders. Raises ImproperlyConfigured for a relative one."""
    paths = [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]
    for folder in paths:
        if not folder.startswith("/") or ".." in folder.split("/"):
            raise ImproperlyConfigured(
                f"{name}: {folder!r} is not an absolute path; use paths such as /data/models"
            )
    return paths


def networks(name: str) -> list[str]:
    """Return a comma-separated list of networks such as 10.0.0.0/8, or any. Raises ImproperlyConfigured for other values."""
    entries = [word.strip() for word in text(name).split(",") if word.strip()]
    for word in entries:
        try:
            word == "any" or ip_network(word)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}; use networks such as 10.0.0.0/8, or any") from error
    return entries


def behind_proxy() -> bool:
    """Whether a trusted proxy sets the client's address and scheme."""
    return flag("TROUPE_BEHIND_PROXY", default=False)


def public_url(internal: str) -> str:
    """Return the address under which people reach the server: TROUPE_PUBLIC_URL, in a container the published port of this machine,
    otherwise the address for jobs. Raises ImproperlyConfigured unless it is an origin such as https://lab.example.org.
    """
    port = text("TROUPE_PUBLISHED_PORT")
    url = text("TROUPE_PUBLIC_URL", f"http://127.0.0.1:{port}" if port else internal).rstrip("/")
    if not re.fullmatch(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d+)?", url):
        raise ImproperlyConfigured(
            f"TROUPE_PUBLIC_URL={url!r} is not an address without a path; use one such as https://lab.example.org"
        )
    return url


def hosts_of(*urls: str) -> list[str]:
    """Return the hosts of URLs as ALLOWED_HOSTS has them: an IPv6 address in brackets."""
    names = [urlsplit(url).hostname for url in urls]
    return [f"[{host}]" if ":" in host else host for host in names if host]


def home() -> Path:
    """Return TROUPE_HOME, absolute; the default is var/ in the folder of manage.py."""
    return Path(text("TROUPE_HOME", str(ROOT / "var"))).expanduser().resolve()


def join_running_stack() -> None:
    """Use the addresses and secrets of the stack that runs on this home, unless the user has set a database.

    This makes `manage.py login_link`, `migrate` or `shell` work while `manage.py up` runs. The environment takes precedence.
    """
    if text("DATABASE_URL"):
        return
    with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
        facts = json.loads((home() / "stack.json").read_text())
        os.kill(int(facts["pid"]), 0)
        for name, value in facts["environment"].items():
            os.environ.setdefault(name, value)


LIMITED = "-c statement_timeout=20s"
"""Settings of the web server's connections: nobody waits longer for a page, and a search must not occupy the database."""


def database(url: str, connections: int = 0) -> dict[str, object]:
    """Return Django's settings for a postgres:// URL; `?host=/folder` is a unix socket's folder.

    `connections`: maximum number of pooled connections of the process; 0: a connection for each thread. Raises
    ImproperlyConfigured for another kind of database.
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
        "CONN_HEALTH_CHECKS": connections > 0,
        "OPTIONS": {"pool": _pool(connections), "options": LIMITED} if connections else {},
    }


def _pool(connections: int) -> dict[str, object]:
    """Return options of a psycopg_pool.ConnectionPool that gives up early, so that requests fail and recover with the database."""
    return {
        "min_size": min(2, connections),
        "max_size": connections,
        "timeout": POOL_TIMEOUT,
        "reconnect_timeout": RECONNECT_TIMEOUT,
    }
