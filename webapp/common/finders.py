"""Serve single files of installed packages, so that nothing third-party is copied into the repository."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

PACKAGE_FILES = {"vendor/plotly.min.js": ("plotly", "package_data/plotly.min.js")}
"""Address below STATIC_URL -> (package, path inside it)."""


class PackageFileFinder(BaseFinder):
    """Finds PACKAGE_FILES for the development server and for collectstatic."""

    def check(self, **kwargs: Any) -> list[Any]:
        """Nothing to configure."""
        return []

    def find(  # type: ignore[override]  # the stubs know only the two literal cases
        self, path: str, find_all: bool = False, **kwargs: Any
    ) -> str | list[str]:
        """The file's place on disk; empty where it is none of ours."""
        found = [str(_place(path))] if path in PACKAGE_FILES else []
        return found if find_all else (found[0] if found else [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        """Pairs of file name and the storage that holds it, under the prefix `vendor`."""
        for address in PACKAGE_FILES:
            if not matches_patterns(address, ignore_patterns or []):
                place = _place(address)
                storage = FileSystemStorage(location=str(place.parent))
                storage.prefix = str(Path(address).parent)  # type: ignore[attr-defined]  # read by collectstatic
                yield place.name, storage


def _place(address: str) -> Path:
    package, path = PACKAGE_FILES[address]
    return Path(str(files(package))) / path
