"""install.py: uv gets pip's indexes, and pip installs where uv cannot."""

import subprocess
from pathlib import Path

import pytest

import install

SETTINGS = """global.find-links='/wheels /more'
:env:.index-url='https://packages.example/simple'
global.extra-index-url='file:///a/simple\\nfile:///b/simple'
global.timeout='180'
"""


def test_uv_gets_the_indexes_of_pip() -> None:
    assert list(install.uv_options(SETTINGS)) == [
        *("--find-links", "/wheels", "--find-links", "/more"),
        *("--default-index", "https://packages.example/simple"),
        *("--index", "file:///a/simple", "--index", "file:///b/simple"),
    ]


def test_pip_installs_where_uv_cannot(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "install_by_uv", lambda words: False)
    assert install.main(["--no-index", "--dry-run", "pip"]) == 0
    assert "Installing by pip" in capfd.readouterr().out


def test_a_failed_install_has_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "install_by_uv", lambda words: False)
    assert install.main(["--no-index", "no-such-package-anywhere"]) != 0


def test_make_installs_by_it() -> None:
    rules = Path("Makefile").read_text()
    assert "install.py -c constraints.txt" in rules and "pip install -e" not in rules
    subprocess.run(["make", "-n", "install"], check=True, capture_output=True)
