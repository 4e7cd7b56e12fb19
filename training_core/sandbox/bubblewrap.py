"""Construction of a sandbox: bubblewrap's namespaces, and a system call filter as a second layer.

Inside there is no network, no /proc, no home folder and no other process: only the system's libraries and the Python
interpreter (read-only), and a small /tmp in memory. The harness, which is trusted, holds CAP_SYS_ADMIN over the
sandbox's own user namespace, so it can give each program its own process and mount namespace; programs have no
capabilities.
"""

import base64
import os
import platform
import shutil
import sys
from pathlib import Path

from training_core.errors import SandboxFailure
from training_core.sandbox.system_calls import INSTALL, program_filter

_NOBODY = "65534"


def command(harness: Path, filter_fd: int, disk_bytes: int, *, namespaces: bool = True) -> list[str]:
    """The command line that runs a harness in a sandbox. Raises SandboxFailure if no sandbox can be started.

    Without `namespaces` the harness cannot create any, so the sandbox can only run one program.
    """
    program = shutil.which("bwrap")
    if platform.system() != "Linux" or program is None:
        raise SandboxFailure(f"no sandbox is available for agents' code: {INSTALL}")
    return [
        program,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox"),
        *("--cap-drop", "ALL", *(("--cap-add", "CAP_SYS_ADMIN") if namespaces else ())),
        *_system(),
        *("--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(disk_bytes), "--tmpfs", "/tmp", "--chdir", "/tmp"),
        *("--ro-bind", str(harness), "/harness.py", "--remount-ro", "/"),
        *("--seccomp", str(filter_fd), "--"),
        *(_interpreter(), "-I", "-S", "-B", "/harness.py"),
        *(base64.b64encode(program_filter()).decode(), str(disk_bytes)),
    ]


def _interpreter() -> str:
    """The running Python interpreter, without its virtual environment."""
    return os.path.realpath(sys.executable)


def _system() -> list[str]:
    """Mounts of libraries and the interpreter, read-only."""
    mounts = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/lib", "/lib64", "/lib32", "/bin"):
        path = Path(folder)
        if path.is_symlink():
            mounts += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            mounts += ["--ro-bind", folder, folder]
    prefix = Path(sys.base_prefix).resolve()
    return mounts if prefix.is_relative_to("/usr") else [*mounts, "--ro-bind", str(prefix), str(prefix)]
