"""Storage of the pages' static files: hashed names that browsers keep, compressed by gzip and brotli."""

from collections.abc import Iterable, Iterator
from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage

PLAIN = ("drf_spectacular_sidecar/", "admin/", "js/")
"""Folders whose files keep their names and are not compressed: third-party pages that few visits need, and the modules that the
bundles contain. Hashing and compressing them would take most of the time of the first start."""
THEME = "js/theme.js"
"""Not a module: it runs before the page is drawn."""


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # has no types
    """Django's manifest storage. Without a manifest, as in unit tests, a file has its plain name."""

    manifest_strict = False

    def stored_name(self, name: str) -> str:
        """Return the hashed name of a collected file, the plain name of others."""
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))

    def post_process(self, paths: dict[str, Any], *args: Any, **options: Any) -> Iterator[Any]:
        """Hash and compress the files outside PLAIN."""
        own = {name: source for name, source in paths.items() if not name.startswith(PLAIN) or name == THEME}
        yield from super().post_process(own, *args, **options)

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Compress the files with hashed names, which are the ones that pages load."""
        hashed = set(self.hashed_files.values())
        yield from super().compress_files([path for path in paths if path in hashed])
