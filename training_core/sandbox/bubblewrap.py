"""Construction of a sandbox: bubblewrap's namespaces, and a system call filter as a second layer.

Inside there is no network, no /proc, no home folder and no other process: only the system's libraries and the Python
interpreter (read-only), and a small /tmp in memory. The harness, which is trusted, holds CAP_SYS_ADMIN over the
sandbox's own user namespace, so it can give each program its own process and mount namespace; programs have no
capabilities.

The launcher and its supervisors run Troupe's code: calls that they never need are refused. A program runs code
written by an agent: only listed calls are allowed, some only with certain arguments, so unlisted calls are refused by
default.
"""

import base64
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from training_core.errors import SandboxFailure

INSTALL = "install bubblewrap and libseccomp (Debian: apt-get install bubblewrap libseccomp2)"
_NOT_PERMITTED, _NO_SUCH_CALL = 1, 38
"""EPERM, and ENOSYS, on which the C library falls back to an older call."""
_NEVER_NEEDED = """
ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp setns umount2 pivot_root chroot open_tree move_mount
fsopen fsconfig fsmount fspick mount_setattr keyctl add_key request_key bpf perf_event_open userfaultfd io_uring_setup
io_uring_enter io_uring_register kexec_load kexec_file_load init_module finit_module delete_module open_by_handle_at
name_to_handle_at socket personality quotactl swapon swapoff reboot acct syslog fanotify_init
"""
"""Calls that are refused even to the launcher and its supervisors. They need unshare, mount and capset."""
_REFUSED = """
fork vfork execve execveat unshare mount kill tkill tgkill pidfd_open pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo
shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink
setpriority sched_setscheduler sched_setparam sched_setattr sched_setaffinity ioprio_set memfd_create memfd_secret
socket bind listen connect accept accept4 sendmsg recvmsg sendmmsg recvmmsg
inotify_init inotify_init1 flock sync syncfs mknod mknodat chown fchown lchown fchownat
setuid setgid setreuid setregid setresuid setresgid setgroups setsid setpgid capset capget seccomp
mlock mlock2 mlockall mincore vmsplice setxattr lsetxattr fsetxattr
"""
"""Calls that are refused to a program with EPERM. Any other call that is not allowed returns ENOSYS."""
_ALLOWED = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 open openat openat2 creat close close_range lseek
_llseek stat lstat fstat stat64 lstat64 fstat64 newfstatat fstatat64 statx statfs fstatfs statfs64 fstatfs64 access faccessat
faccessat2 getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat
symlink symlinkat readlink readlinkat truncate ftruncate truncate64 ftruncate64 fallocate fadvise64 fsync fdatasync umask
chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
dup dup2 dup3 pipe pipe2 sendfile splice tee copy_file_range
mmap mmap2 munmap mremap mprotect madvise brk msync membarrier
exit exit_group futex futex_time64 futex_waitv futex_wake futex_wait futex_requeue set_tid_address set_robust_list
get_robust_list rseq gettid getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgid getpgrp getsid
sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min getpriority
getrusage times sysinfo uname getcpu arch_prctl getrlimit setrlimit getrandom restart_syscall wait4 waitid
time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep getitimer setitimer alarm timer_create timer_settime
timer_gettime timer_delete timer_getoverrun timerfd_create timerfd_settime timerfd_gettime
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause signalfd signalfd4
poll ppoll select pselect6 _newselect epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
socketpair sendto recvfrom shutdown getsockopt setsockopt getsockname getpeername
"""
"""Calls that a program may make with any arguments: its own files, memory, threads, clocks and signal handlers."""
_ALLOWED_COMMANDS = {
    "fcntl": (1, (0, 1, 2, 3, 4, 5, 6, 7, 9, 1030, 1031, 1032, 1034)),
    "ioctl": (1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    "prctl": (0, (15, 16, 0x53564D41)),
}
"""Call -> (index of the argument, the allowed values).

fcntl: duplicates, flags, locks, F_GETOWN, size of a pipe, F_GET_SEALS; not F_SETOWN, F_SETOWN_EX and F_SETSIG
(signals to others), nor F_SETLEASE and F_NOTIFY (which delay or observe other processes that open a file). ioctl:
TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; not FIOSETOWN and SIOCSPGRP. prctl: the thread's name, and
names of memory.
"""
_THREAD = 0x10000
_NAMESPACES = 0x7E020000 | 0x80
"""CLONE_THREAD, and every CLONE_NEW* flag."""
_NOBODY = "65534"
_SERVER_DISK_BYTES = 64 * 1024**2
_LIMITED = 'ulimit -d 2097152; ulimit -f 131072; ulimit -u 128 2>/dev/null || ulimit -p 128; exec "$@"'
"""2 GiB of data of a process, files of 64 MiB (standard error is one), 128 tasks: bash and dash name this limit differently, and
it does not apply to root.
"""


def command(harness: Path, filter_fd: int, disk_bytes: int, *, namespaces: bool = True) -> list[str]:
    """The command line that runs a harness in a sandbox. Raises SandboxFailure if no sandbox can be started.

    Without `namespaces` the harness cannot create any, so the sandbox can only run one program.
    """
    return [
        *_bare(disk_bytes),
        *(("--cap-add", "CAP_SYS_ADMIN") if namespaces else ()),
        *("--ro-bind", str(harness), "/harness.py", "--remount-ro", "/"),
        *("--seccomp", str(filter_fd), "--"),
        *(_interpreter(), "-I", "-S", "-B", "/harness.py"),
        *(base64.b64encode(program_filter()).decode(), str(disk_bytes)),
    ]


def server_command(program: Sequence[str], folders: Sequence[str], rules: Path) -> list[str]:
    """The command line of a program in a sandbox that reads `folders` and this interpreter's packages, and answers over its standard
    input and output. `rules`: a file with `sandbox_filter`. Raises SandboxFailure.
    """
    read = [part for folder in (sys.prefix, *folders) for part in ("--ro-bind", folder, folder)]
    own = sys.executable if program[0] in ("python", "python3") else program[0]
    return [
        *("/bin/sh", "-c", 'exec "$@" 3<"$0"', str(rules), *_bare(_SERVER_DISK_BYTES)),
        *(*read, "--remount-ro", "/", "--setenv", "PATH", f"{sys.prefix}/bin:/usr/bin:/bin"),
        *("--setenv", "HOME", "/tmp", "--seccomp", "3", "--", "/bin/sh", "-c", _LIMITED, "sh"),
        *(own, *program[1:]),
    ]


def _bare(disk_bytes: int) -> list[str]:
    """A sandbox without programs of ours: the system, read-only, and an empty /tmp."""
    program = shutil.which("bwrap")
    if platform.system() != "Linux" or program is None:
        raise SandboxFailure("no sandbox is available for agents' code:", remedy=INSTALL)
    return [
        program,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox", "--cap-drop", "ALL"),
        *_system(),
        *("--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(disk_bytes), "--tmpfs", "/tmp", "--chdir", "/tmp"),
    ]


@cache
def sandbox_filter() -> bytes:
    """Filter of every process of a sandbox (BPF). Raises SandboxFailure if libseccomp is missing."""
    seccomp = _library()
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in _NEVER_NEEDED.split():
        _add(rules, seccomp.ERRNO(_NOT_PERMITTED), name)
    return _compiled(rules)


@cache
def program_filter() -> bytes:
    """Filter of the processes that run programs (BPF). Raises SandboxFailure if libseccomp is missing."""
    seccomp = _library()
    rules = seccomp.SyscallFilter(seccomp.ERRNO(_NO_SUCH_CALL))
    for name in sorted({*_NEVER_NEEDED.split(), *_REFUSED.split()}):
        _add(rules, seccomp.ERRNO(_NOT_PERMITTED), name)
    for name in _ALLOWED.split():
        _add(rules, seccomp.ALLOW, name)
    for name, (argument, values) in _ALLOWED_COMMANDS.items():
        for value in values:
            _add(rules, seccomp.ALLOW, name, seccomp.Arg(argument, seccomp.EQ, value))
    for unused in (2, 3):  # arguments of the process itself: either get or set
        own, absent = (seccomp.Arg(value, seccomp.EQ, 0) for value in (0, unused))
        _add(rules, seccomp.ALLOW, "prlimit64", own, absent)
    _add(rules, seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _THREAD | _NAMESPACES, _THREAD))
    _add(rules, seccomp.ERRNO(_NOT_PERMITTED), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _THREAD, 0))
    return _compiled(rules)


def _library() -> Any:
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:  # the import searches for the library
        raise SandboxFailure(
            f"no sandbox is available for agents' code ({error}):", remedy=INSTALL
        ) from error
    return pyseccomp


def _add(rules: Any, action: int, name: str, *arguments: Any) -> None:
    """Add a rule. A call unknown to this architecture or version of libseccomp gets the filter's default."""
    if _library().resolve_syscall(_library().Arch.NATIVE, name) != -1:
        rules.add_rule(action, name, *arguments)


def _compiled(rules: Any) -> bytes:
    handle = os.memfd_create("filter")
    with os.fdopen(handle, "w+b") as compiled:
        rules.export_bpf(compiled)
        compiled.seek(0)
        return compiled.read()


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
