"""The static site is built without a broken link, where its generator is installed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


@pytest.mark.extended
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_static_site_has_no_broken_links(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "docs/use/health.html").is_file()
