"""Runs programs that look up their user name under a uid that has none.

Containers often run under a uid without an entry in /etc/passwd. initdb then ends before it reads its options.
"""

import ctypes
import os
import pwd
from collections.abc import Callable
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)


def named_user() -> Callable[[], None] | None:
    """For `preexec_fn` of such a program; None if the user of this process has a name.

    The child gets a user namespace in which its uid is that of an existing account. Outside, its uid and the owners of
    the files it creates are unchanged. The child fails to start if the kernel does not allow user namespaces.
    Raises LookupError if no account other than root exists.
    """
    uid, gid = os.geteuid(), os.getegid()
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if uid == 0 or any(entry.pw_uid == uid for entry in accounts) or _has_name(uid):
        return None
    if not accounts:
        raise LookupError("no account other than root exists")
    inside = accounts[-1].pw_uid

    def enter() -> None:
        _libc.prctl(
            _PR_SET_DUMPABLE, 1
        )  # otherwise a process that has changed its uid may not write its own maps
        if _libc.unshare(_CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "no user namespace")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{inside} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")

    return enter


def _has_name(uid: int) -> bool:
    """Whether the machine knows the uid; also asks directory services, which `getpwall` may omit."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
