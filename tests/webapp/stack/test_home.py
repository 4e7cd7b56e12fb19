"""TROUPE_HOME: private, used by one stack at a time."""

import json
import os
import stat
from pathlib import Path

import pytest

from webapp.stack.home import Home, StackError, StackFacts, write_private


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_stack_is_told_about_the_first(home: Home) -> None:
    lock = home.lock()
    home.write_facts(StackFacts("a", 4242, "http://127.0.0.1:8000", "/tmp/x"))
    with pytest.raises(StackError, match=r"already runs on .* at http://127.0.0.1:8000 \(process 4242\)"):
        home.lock()
    os.close(lock)
    os.close(home.lock())


def test_secrets_are_made_once_and_private(home: Home) -> None:
    first = home.secret("secret_key")
    assert home.secret("secret_key") == first and len(first) >= 64
    assert home.secret("other") != first
    assert _mode(home.root / "secret_key") == 0o600


def test_an_empty_secret_is_refused(home: Home) -> None:
    (home.root / "secret_key").write_text("")
    with pytest.raises(StackError, match="delete it"):
        home.secret("secret_key")


def test_what_is_written_is_private_whatever_the_umask(home: Home) -> None:
    before = os.umask(0)
    try:
        write_private(home.root / "local.json", {"url": "u", "token": "t"})
    finally:
        os.umask(before)
    assert _mode(home.root / "local.json") == 0o600
    assert json.loads((home.root / "local.json").read_text()) == {"url": "u", "token": "t"}
    assert [path.name for path in home.root.iterdir() if path.name.startswith(".")] == []


def test_torn_facts_are_none(home: Home) -> None:
    home.facts_file.write_text('{"id": "a"')
    assert home.read_facts() is None
    home.facts_file.write_text('{"id": "a"}')
    assert home.read_facts() is None


def test_an_existing_home_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o750)
    (tmp_path / "mine").chmod(0o750)
    Home(tmp_path / "mine").make()
    assert _mode(tmp_path / "mine") == 0o750


def test_a_home_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="TROUPE_HOME"):
        Home(tmp_path / "file" / "home").make()
