"""Start a client run on the server, now or when the server answers again."""

import json
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.documents.descriptions import shortened
from troupe_client.server_api import ROOT, Server, ServerAway, find_server, home

logger = logging.getLogger("troupe")
ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Characters of run ids: no letters or digits that look alike."""
REQUEST = "client.json"
"""File in the run folder with the request that starts the run, so that `troupe sync` can repeat it."""


def new_id() -> str:
    """Return a random id of ten characters: one of 8 * 10^14."""
    return "".join(secrets.choice(ALPHABET) for _ in range(10))


def data_folder(folder: str) -> Path:
    """The first of: `folder`, TROUPE_DIR, TROUPE_HOME, var/ of the checkout, troupe/ below the working folder."""
    chosen = folder or os.environ.get("TROUPE_DIR", "").strip()
    if chosen:
        return Path(chosen).expanduser().resolve()
    has_home = os.environ.get("TROUPE_HOME", "").strip() or (ROOT / "manage.py").exists()
    return home() if has_home else Path("troupe").resolve()


@dataclass(frozen=True)
class OpenedRun:
    """A run that the server knows, or will know."""

    server: Server
    attempt: int
    page: str
    """Path of its page; empty until the server answers."""
    name: str = ""
    step: int = 0
    """Step after the last one that the server has."""
    iteration: int = 0
    """Completed steps."""
    steps: int = 0
    """Total number of steps; 0: unknown."""


def within_limits(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request for a run with a description that the server takes; one line of the log says what is shortened."""
    stored, cut = shortened(body)
    if cut:
        logger.warning("Shortened in the description of run %s: %s", body["id"], "; ".join(cut))
    return stored


def begin(server: Server, body: dict[str, Any]) -> OpenedRun:
    """Start the run on the server; safe to repeat. Raises ServerAway (try later), ServerFailure (refused)."""
    answer = server.call("/api/v1/client-runs/", body)
    run = answer["run"]
    known = {
        "name": run.get("name", ""),
        "iteration": run.get("iteration", 0),
        "steps": run.get("iterations", 0),
    }
    return OpenedRun(
        server, int(answer["attempt"]), str(run["links"]["page"]), step=answer.get("step", 0), **known
    )


def request_run(folder: Path, body: dict[str, Any], *, online: bool) -> OpenedRun | None:
    """Store the request in the run folder and send it. Returns None if offline.

    Raises TroupeError if no server is known, if it refuses, or if it does not answer a request to resume.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if body["resume"] == "never" and not (body["role"] and (folder / REQUEST).exists()):
        # The request of the main program, which creates the run; one that resumes it is not repeated.
        try:
            (folder / REQUEST).write_text(json.dumps(body, default=str, ensure_ascii=False))
        except OSError as error:
            (folder / REQUEST).unlink(missing_ok=True)
            if not online:
                raise TroupeError(f"{folder} takes no files: {error}. Free space, or choose `dir`") from error
    if not online:
        if body["resume"] != "never":
            raise TroupeError('resuming needs the server, which numbers the attempt; use mode="online"')
        return None
    server = find_server()
    try:
        return begin(server, body)
    except ServerAway:
        if body["resume"] != "never":
            raise
        return OpenedRun(server, 1, "")


def begin_from_folder(folder: Path, server: Server) -> None:
    """Repeat the stored request of a run folder, for runs that were started offline."""
    request = folder / REQUEST
    if request.exists():
        begin(server, json.loads(request.read_text()))
