"""Begin a run of one's own program on the server: where it is, what is said, and again later if it is away."""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.server_api import ROOT, Server, ServerAway, find_server, home

ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Of run ids: no letters or digits that look alike."""
ASKED = "client.json"
"""In the run's folder: what was asked of the server, so that `troupe sync` can ask it later."""


def new_id() -> str:
    """Ten letters and digits; 2 * 10^14 are possible."""
    return "".join(secrets.choice(ALPHABET) for _ in range(10))


def data_folder(given: str) -> Path:
    """`given`, TROUPE_DIR, TROUPE_HOME, the checkout's var/, or troupe/ below the working folder, in this order."""
    word = given or os.environ.get("TROUPE_DIR", "").strip()
    if word:
        return Path(word).expanduser().resolve()
    known = os.environ.get("TROUPE_HOME", "").strip() or (ROOT / "manage.py").exists()
    return home() if known else Path("troupe").resolve()


@dataclass(frozen=True)
class Opened:
    """Where the run's events go."""

    server: Server
    attempt: int
    page: str
    """Path of its page; empty while the server has not answered."""


def begin(server: Server, body: dict[str, Any]) -> Opened:
    """Ask for the run; asking twice is safe. Raises ServerAway (try later), ServerFailure (refused)."""
    answer = server.call("/api/v1/client-runs/", body)
    return Opened(server, int(answer["attempt"]), str(answer["run"]["links"]["page"]))


def ask(folder: Path, body: dict[str, Any], *, online: bool) -> Opened | None:
    """Note what is asked, and ask it. None when offline.

    Raises TroupeError: no server is known, it refuses, or one to resume from cannot be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ASKED).write_text(json.dumps(body, default=str, ensure_ascii=False))
    if not online:
        if body["resume"] != "never":
            raise TroupeError('resuming needs the server, to number the attempt: use mode="online"')
        return None
    server = find_server()
    try:
        return begin(server, body)
    except ServerAway:
        if body["resume"] != "never":
            raise
        return Opened(server, 1, "")


def ask_again(folder: Path, server: Server) -> None:
    """Make the run that this folder is of, where a program began it out of the server's sight."""
    noted = folder / ASKED
    if noted.exists():
        begin(server, json.loads(noted.read_text()))
