"""Starts and ends child processes without leaving any behind."""

import contextlib
import ctypes
import os
import pwd
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

ACCOUNTS = ("troupe", "postgres", "nobody")
"""Accounts that serve the database when root starts the stack; the first that exists is used."""


@dataclass(frozen=True)
class Account:
    """An unprivileged user, with numeric uid and gid."""

    name: str
    uid: int
    gid: int


def unprivileged_account(owner: int | None = None) -> Account | None:
    """Return the account for programs that refuse to run as root; None if we are not root.

    owner: uid that already owns the data; it is kept.
    """
    if os.geteuid() != 0:
        return None
    entries = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    if owner is not None:
        owner_entry = next((entry for entry in entries.values() if entry.pw_uid == owner), None)
        return (
            Account(owner_entry.pw_name, owner_entry.pw_uid, owner_entry.pw_gid)
            if owner_entry
            else Account(str(owner), owner, owner)
        )
    names = [name for name in ACCOUNTS if name in entries] or sorted(entries)
    if not names:
        raise RuntimeError(
            "No user other than root exists here, and Postgres refuses to run as root; set DATABASE_URL"
        )
    return Account(names[0], entries[names[0]].pw_uid, entries[names[0]].pw_gid)


def become(account: Account | None) -> dict[str, Any]:
    """Return the subprocess options that change the user and its groups."""
    return {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}


def dies_with_parent(number: int = signal.SIGTERM) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends `number` to the child when the thread that started it ends."""
    parent = os.getpid()

    def arm() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # the parent died before the prctl call
            os._exit(1)

    return arm


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, instead of init."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def tagged(name: str, value: str) -> list[psutil.Process]:
    """Return all other processes of this machine with NAME=VALUE in their environment."""
    matching = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(name) == value:
                matching.append(process)
    return matching


def end_processes(processes: Iterable[psutil.Process], grace: float) -> int:
    """Terminate the processes, wait up to `grace` seconds, then kill them. Returns their number."""
    alive = list(processes)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(alive, timeout=grace)
    for process in stubborn:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=5)
    return len(alive)


def signal_group(pid: int, number: int) -> None:
    """Signal the process group led by a child; a dead child is ignored."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
