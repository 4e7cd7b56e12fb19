"""Serves single files of installed packages, so that the repository contains no third-party copies."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

PACKAGE_FILES = {"vendor/plotly.min.js": ("plotly", "package_data/plotly.min.js")}
"""Path below STATIC_URL -> (package, path inside it)."""


class PackageFileFinder(BaseFinder):
    """Finds PACKAGE_FILES for the development server and for collectstatic."""

    def check(self, **kwargs: Any) -> list[Any]:
        """Return no messages: there is nothing to configure."""
        return []

    def find(  # type: ignore[override]  # the stubs know only the two literal cases
        self, path: str, find_all: bool = False, **kwargs: Any
    ) -> str | list[str]:
        """Return the file's path on disk; empty for other files."""
        paths = [str(_place(path))] if path in PACKAGE_FILES else []
        return paths if find_all else (paths[0] if paths else [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        """Yield pairs of file name and its storage, with the prefix `vendor`."""
        for address in PACKAGE_FILES:
            if not matches_patterns(address, ignore_patterns or []):
                path = _place(address)
                storage = FileSystemStorage(location=str(path.parent))
                storage.prefix = str(Path(address).parent)  # type: ignore[attr-defined]  # read by collectstatic
                yield path.name, storage


def _place(address: str) -> Path:
    package, path = PACKAGE_FILES[address]
    return Path(str(files(package))) / path
