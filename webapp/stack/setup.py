"""Prerequisites of the first login: static files, the owner, their token, a login link."""

import hashlib
import json
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from webapp.accounts.links import link_create
from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import owner_ensure
from webapp.accounts.tokens import PERSONAL_SCOPES, token_create, token_find
from webapp.stack.home import write_private


def collect_static() -> bool:
    """Collect the static files of the pages unless nothing has changed. Returns whether it was necessary."""
    stamp = Path(settings.STATIC_ROOT) / ".stamp"
    now = _static_stamp()
    if stamp.exists() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, clear=stamp.exists())
    stamp.write_text(now)
    return True


def owner_login(url: str) -> str:
    """Return the URL of a single-use login link for the local owner, who is created if missing."""
    owner, _ = owner_ensure()
    return f"{url}/account/link/{link_create(owner)}/"


def local_token_ensure(url: str, path: Path) -> None:
    """Write local.json: this server's address and the owner's token, reusing a token that is still active."""
    owner, _ = owner_ensure()
    secret = _kept_secret(path, owner)
    if not secret:
        ApiToken.objects.filter(user=owner, name="local").delete()
        _, secret = token_create(owner, "local", PERSONAL_SCOPES)
    write_private(path, {"url": url, "token": secret})


def _kept_secret(path: Path, owner: User) -> str:
    try:
        secret = str(json.loads(path.read_text())["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    token = token_find(secret)
    return secret if token and token.user_id == owner.pk else ""


def _static_stamp() -> str:
    """Return a stamp that changes with the source files: paths, sizes, modification times."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            facts = Path(storage.path(name)).stat()
            digest.update(f"{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
