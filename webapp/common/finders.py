"""The finder of bundles (webapp/common/bundles.py)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

from webapp.common.bundles import bundle_texts

PREFIX = "bundles"


class BundleFinder(BaseFinder):
    """Builds the bundles in TROUPE_HOME and finds them, for collectstatic."""

    def check(self, **kwargs: Any) -> list[Any]:
        """Return no messages: there is nothing to configure."""
        return []

    def find(  # type: ignore[override]  # the stubs know only the two literal cases
        self, path: str, find_all: bool = False, **kwargs: Any
    ) -> str | list[str]:
        """Return the bundle's path on disk; empty for other files."""
        name = path.removeprefix(f"{PREFIX}/")
        paths = [str(_folder() / name)] if name != path and name in _build() else []
        return paths if find_all else (paths[0] if paths else [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        """Yield pairs of file name and its storage, with PREFIX as prefix."""
        storage = FileSystemStorage(location=str(_folder()))
        storage.prefix = PREFIX  # type: ignore[attr-defined]  # read by collectstatic
        for name in _build():
            if not matches_patterns(f"{PREFIX}/{name}", ignore_patterns or []):
                yield name, storage


def _folder() -> Path:
    return Path(settings.TROUPE_HOME) / PREFIX


def _build() -> list[str]:
    """Write the bundles that have changed; returns the names of all."""
    sources = Path(settings.ROOT) / "webapp"
    texts = bundle_texts(sources / "static", sources / "templates")
    for name, text in texts.items():
        path = _folder() / name
        if not path.exists() or path.read_text() != text:  # an unchanged file keeps its time of modification
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return sorted(texts)
