"""A wheel holds everything that the checkout serves."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT

FOLDERS = (*PACKAGES, "templates", "static", "docs", "docker", "examples")
NEEDED = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")


@pytest.mark.extended
def test_a_wheel_has_pages_static_files_documents_and_presets(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for folder in FOLDERS:
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
    documents = "webapp/documents/files"
    for path in (
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("docs/images/*"),
        *ROOT.glob("docker/*.md"),
        ROOT / "examples/README.md",
    ):
        assert f"{documents}/{path.relative_to(ROOT)}" in packed
    assert f"{documents}/README.md" in packed
    assert not [name for name in packed if name.startswith(f"{documents}/") and name.endswith(".py")]
    for path in (ROOT / "training_core").rglob("presets/*.toml"):
        assert str(path.relative_to(ROOT)) in packed
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert str(path.relative_to(ROOT)) in packed
