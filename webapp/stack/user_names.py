"""Programs that look up the name of their user, run by a uid that has none.

Containers often run under a uid without an entry in /etc/passwd. initdb then ends before it looks at its options.
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
    """For `preexec_fn` of such a program; None where this process's user has a name.

    The child gets a user namespace in which its uid is that of an account of this machine. Outside it stays what it was, and
    so do the owners of the files that it makes. The child fails to start where the kernel allows no user namespaces.
    Raises LookupError where no account but root is known.
    """
    uid, gid = os.geteuid(), os.getegid()
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if uid == 0 or any(entry.pw_uid == uid for entry in accounts) or _known(uid):
        return None
    if not accounts:
        raise LookupError("no account but root is known")
    inside = accounts[-1].pw_uid

    def enter() -> None:
        _libc.prctl(
            _PR_SET_DUMPABLE, 1
        )  # a process that has changed its uid may not write its own maps otherwise
        if _libc.unshare(_CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "no user namespace")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{inside} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")

    return enter


def _known(uid: int) -> bool:
    """Whether the machine knows the uid, from a directory service too, which `getpwall` may leave out."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
