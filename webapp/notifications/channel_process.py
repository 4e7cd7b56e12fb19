"""The process that sends one message to one channel: `python -m webapp.notifications.channel_process`, with a job as JSON on stdin.

Apprise has separate network code for every service, so the limit is enforced below it: an audit hook of the interpreter
receives each connection with its numeric address, including redirects. The process has no secrets of the server in its
environment, cannot start programs or write files, and its memory is limited.

Prints "sent" or "not sent", nothing else.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from training_core.config.networks import literal_allowed

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 10.0
MEMORY = 1 << 30
SENT, NOT_SENT = "sent", "not sent"
_PROGRAMS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "os.spawn",
)
_OTHER_WAYS = ("socket.sendto", "socket.sendmsg", "socket.bind")
"""Audit events of unchecked datagrams, and of servers."""


def message_send(address: str, networks: Collection[str], title: str, body: str) -> bool:
    """Send a message in a separate process; returns whether it was accepted within SECONDS."""
    job = {"address": address, "networks": list(networks), "title": title, "body": body}
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "webapp.notifications.channel_process"],
            input=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # third-party messages may contain the address
            env=environment,
            cwd=ROOT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.stdout.decode(errors="replace").strip() == SENT


def guard(networks: Collection[str]) -> None:
    """Permanently restrict this process to connections to allowed addresses."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            target = arguments[1]
            if not (isinstance(target, tuple) and literal_allowed(str(target[0]), networks)):
                raise PermissionError("this address is not allowed")
        elif event in _PROGRAMS or (event in _OTHER_WAYS and arguments[1] is not None):
            raise PermissionError(f"{event} is not allowed here")

    sys.addaudithook(heard)


def main() -> None:
    """Send the message described on stdin."""
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    import apprise

    guard(job["networks"])
    asset = apprise.AppriseAsset(http_redirects=False, storage_mode="memory")
    channel = apprise.Apprise.instantiate(job["address"], asset=asset)  # `add` would accept several addresses
    sender = apprise.Apprise(channel, asset=asset) if channel else None
    text = apprise.NotifyFormat.TEXT
    taken = sender and sender.notify(title=job["title"], body=job["body"], body_format=text)
    sys.stdout.write(SENT if taken else NOT_SENT)


if __name__ == "__main__":
    main()
