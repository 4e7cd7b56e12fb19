"""How a sandbox is put up: bubblewrap's namespaces, and a filter of system calls as a second line.

Inside there is no network, no /proc, no home folder and no other process: only the system's libraries and the Python
interpreter (read-only), and a small /tmp in memory. The harness forks a process for each program, which may start threads but no further
process, and signal nobody.
"""

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from training_core.errors import SandboxFailure

_NOBODY = "65534"
_CLONE_THREAD = 0x10000
_RARE = (
    "ptrace", "process_vm_readv", "process_vm_writev", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot",
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "kexec_load",
    "init_module", "finit_module", "open_by_handle_at", "socket", "personality",
)  # fmt: skip
"""System calls that nothing in the sandbox needs."""
_PROGRAMS_OWN = (
    "fork", "vfork", "kill", "tkill", "tgkill", "pidfd_open", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    "shmget", "shmat", "msgget", "semget", "mq_open", "prlimit64", "setpriority", "sched_setaffinity",
)  # fmt: skip
"""What a program to be judged may not do besides: start or signal processes, or leave something for the next program."""
_INSTALL = "install bubblewrap and libseccomp (Debian: apt-get install bubblewrap libseccomp2)"


def command(harness: Path, filter_fd: int, disk_bytes: int) -> list[str]:
    """The command line that runs a harness in a sandbox. Raises SandboxFailure where nothing can put one up."""
    program = shutil.which("bwrap")
    if platform.system() != "Linux" or program is None:
        raise SandboxFailure(f"there is no sandbox to run agents' code in: {_INSTALL}")
    return [
        program,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox", "--cap-drop", "ALL"),
        *_system(),
        *(
            "--dev",
            "/dev",
            "--remount-ro",
            "/dev",
            "--size",
            str(disk_bytes),
            "--tmpfs",
            "/tmp",
            "--chdir",
            "/tmp",
        ),
        *("--ro-bind", str(harness), "/harness.py", "--remount-ro", "/"),
        *("--seccomp", str(filter_fd), "--"),
        *(_interpreter(), "-I", "-S", "-B", "/harness.py"),
    ]


def _interpreter() -> str:
    """The Python that runs this, without its virtual environment."""
    return os.path.realpath(sys.executable)


def _system() -> list[str]:
    """Mounts of libraries and the interpreter, read-only."""
    mounts = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/lib", "/lib64", "/lib32", "/bin"):
        place = Path(folder)
        if place.is_symlink():
            mounts += ["--symlink", str(place.readlink()), folder]
        elif place.is_dir():
            mounts += ["--ro-bind", folder, folder]
    prefix = Path(sys.base_prefix).resolve()
    return mounts if prefix.is_relative_to("/usr") else [*mounts, "--ro-bind", str(prefix), str(prefix)]


@cache
def outer_filter() -> bytes:
    """Of the whole sandbox, compiled (BPF). Raises SandboxFailure where libseccomp is missing."""
    return _compiled(_RARE, processes=True)


@cache
def program_filter() -> bytes:
    """Of the processes that run programs: they may start threads, but no process. Raises SandboxFailure."""
    return _compiled(_PROGRAMS_OWN, processes=False)


def _compiled(refused: Sequence[str], *, processes: bool) -> bytes:
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:  # it looks for the library when it is imported
        raise SandboxFailure(f"there is no sandbox to run agents' code in ({error}): {_INSTALL}") from error
    refuse, absent = (
        pyseccomp.ERRNO(1),
        pyseccomp.ERRNO(38),
    )  # EPERM; ENOSYS, upon which libc falls back to clone
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in refused:
        rules.add_rule(refuse, name)
    if not processes:
        rules.add_rule(absent, "clone3")
        rules.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, 0))
    handle = os.memfd_create("filter")
    with os.fdopen(handle, "w+b") as compiled:
        rules.export_bpf(compiled)
        compiled.seek(0)
        return compiled.read()
