"""A wheel holds everything that the checkout serves."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT

NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.mark.slow
def test_a_wheel_has_pages_static_files_and_presets(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for folder in (*PACKAGES, "templates", "static"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        tmp_path,
    ]
    subprocess.run([*build, source], check=True, capture_output=True)

    packed = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for folder in ("templates", "static"):
        for path in (ROOT / folder).rglob("*"):
            assert path.is_dir() or f"webapp/{path.relative_to(ROOT)}" in packed
    for path in (ROOT / "training_core").glob("*/environments/*/presets/*.toml"):
        assert str(path.relative_to(ROOT)) in packed
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert str(path.relative_to(ROOT)) in packed
