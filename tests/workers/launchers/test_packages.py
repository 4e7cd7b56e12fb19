"""The archive for a cluster that does not see this machine: our packages, and those that the server's owner has allowed."""

import io
import zipfile
from pathlib import Path

import pytest

from workers.launchers.launcher import LauncherFailure
from workers.launchers.ray_jobs import code_package


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    code_package.cache_clear()


def names() -> list[str]:
    return zipfile.ZipFile(io.BytesIO(code_package().content)).namelist()


def test_allowed_packages_are_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(name.split("/")[0] in ("training_core", "workers") for name in names())
    (tmp_path / "lab" / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "rewards.py", "words.csv", "__pycache__/rewards.pyc"):
        (tmp_path / "lab" / name).write_text("x = 1")
    (tmp_path / "alone.py").write_text("x = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TROUPE_IMPORT_PACKAGES", "lab.rewards, alone")
    code_package.cache_clear()
    own = [name for name in names() if name.split("/")[0] not in ("training_core", "workers")]
    assert sorted(own) == ["alone.py", "lab/__init__.py", "lab/rewards.py", "lab/words.csv"]


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_IMPORT_PACKAGES", "no_such_package")
    with pytest.raises(LauncherFailure, match="'no_such_package', which is not installed here"):
        code_package()
