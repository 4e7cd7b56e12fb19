"""The database at the start: new tables equal the migrations' tables; filled ones are dumped and migrated once."""

import lzma
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.golden.home import ARCHIVE, DUMP
from webapp.config.environment import ROOT
from webapp.stack.postgres import PostgresServer

pytestmark = pytest.mark.extended
NAME = "prepare_test"


def create_empty(servers: PostgresServer) -> None:
    """Create the database of these tests, in place of a former one."""
    with servers.connect("postgres") as connection:
        for command in ("DROP DATABASE IF EXISTS {}", "CREATE DATABASE {}"):
            connection.execute(sql.SQL(command).format(sql.Identifier(NAME)))


@pytest.fixture
def database(servers: PostgresServer) -> str:
    """Address of an empty database of its own."""
    create_empty(servers)
    return servers.url.replace("/troupe?", f"/{NAME}?")


def manage(
    command: list[str], home: Path, database: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """A management command in a process of its own."""
    given = {"TROUPE_HOME": str(home), "DATABASE_URL": database, "TROUPE_SERVER_URL": "http://127.0.0.1:1"}
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *command], env=os.environ | given | variables, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def statements(database: str, servers: PostgresServer, *options: str) -> set[str]:
    """The statements that create a database and its rows, without the order of columns, identifiers and times of rows."""
    command = [servers.binaries / "pg_dump", "--no-owner", "--column-inserts", *options, "-d", database]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^(--|\\).*\n", "", text, flags=re.MULTILINE)
    rows = re.compile(r"^(INSERT|SELECT) .*$", re.MULTILINE)
    text = rows.sub(lambda row: re.sub(r"\b\d[\d.:+-]*", "0", row[0]), text)
    parts = [statement.splitlines() for statement in text.split("\n\n")]
    return {"\n".join(sorted(line.rstrip(",") for line in lines)).strip() for lines in parts}


def test_new_tables_equal_the_tables_of_the_migrations(
    tmp_path: Path, database: str, servers: PostgresServer
) -> None:
    assert manage(["migrate"], tmp_path, database).returncode == 0
    migrated = statements(database, servers)
    create_empty(servers)
    create = "from webapp.stack.setup import create_tables; create_tables()"
    assert manage(["shell", "-c", create], tmp_path, database).returncode == 0
    different = statements(database, servers) ^ migrated
    # Django's own migration gives this table, which Troupe does not use, identifiers of another size.
    assert [words for words in different if "CREATE TABLE public.auth_group_permissions (" not in words] == []


@pytest.mark.parametrize(("version", "runs"), [("d3f6c46c", 2), ("719057fa", 1)])
def test_old_tables_become_the_tables_of_today(
    tmp_path: Path, database: str, servers: PostgresServer, version: str, runs: int
) -> None:
    if version == "d3f6c46c":
        with tarfile.open(ARCHIVE) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # absent before Python 3.11.4
            archive.extract(DUMP, tmp_path)
    else:
        packed = ARCHIVE.with_name(f"database-{version}.dump.xz").read_bytes()
        (tmp_path / DUMP).write_bytes(lzma.decompress(packed))
    restore = [servers.binaries / "pg_restore", "--no-owner", "-d", database, tmp_path / DUMP]
    subprocess.run(restore, check=True, capture_output=True)
    migrated = manage(["migrate"], tmp_path, database)
    assert migrated.returncode == 0, migrated.stderr
    with psycopg.connect(database.replace("postgres://", "postgresql://")) as connection:
        count = "SELECT count(*) FROM runs_run WHERE tone > 0 AND series_count > 0 AND episode_counts <> '{}'"
        assert connection.execute(count).fetchone() == (runs,)
        assert connection.execute("SELECT to_regclass('health_channel')").fetchone() == (None,)
    upgraded = statements(database, servers, "--schema-only")
    create_empty(servers)
    assert manage(["migrate"], tmp_path, database).returncode == 0
    assert upgraded ^ statements(database, servers, "--schema-only") == set()


def test_a_filled_database_is_dumped_before_it_is_migrated(
    tmp_path: Path, database: str, servers: PostgresServer
) -> None:
    (tmp_path / "backups").mkdir()
    ours = {"TROUPE_PG_BINARIES": str(servers.binaries)}
    first = manage(["stack_prepare"], tmp_path, database, **ours)
    assert first.returncode == 0, first.stderr
    assert "/account/link/" in first.stdout
    assert list((tmp_path / "backups").iterdir()) == [], "an empty database needs no dump"

    again = manage(["stack_prepare"], tmp_path, database, **ours)
    assert "0 migrations were applied; static files unchanged" in again.stderr
    assert list((tmp_path / "backups").iterdir()) == []

    assert manage(["migrate", "ingest", "zero"], tmp_path, database).returncode == 0
    third = manage(["stack_prepare"], tmp_path, database, **ours)
    assert third.returncode == 0, third.stderr
    dumps = list((tmp_path / "backups").iterdir())
    assert len(dumps) == 1
    restored = [servers.binaries / "pg_restore", "-a", "-f", "-", dumps[0]]
    assert "owner" in subprocess.run(restored, capture_output=True, text=True, check=True).stdout


def test_without_a_dump_nothing_is_migrated(tmp_path: Path, database: str, servers: PostgresServer) -> None:
    (tmp_path / "backups").mkdir()
    assert manage(["migrate", "accounts"], tmp_path, database).returncode == 0
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "pg_dump").write_text("#!/bin/sh\necho 'disk full' >&2\nexit 1\n")
    (fake / "pg_dump").chmod(0o755)
    failed = manage(["stack_prepare"], tmp_path, database, TROUPE_PG_BINARIES=str(fake))
    assert failed.returncode != 0
    assert "no migration was applied: disk full" in failed.stderr
    with psycopg.connect(database.replace("postgres://", "postgresql://")) as connection:
        assert connection.execute("SELECT to_regclass('metrics_series')").fetchone() == (None,)
