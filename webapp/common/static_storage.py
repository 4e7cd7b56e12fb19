"""Storage of the pages' static files: hashed names that browsers keep, compressed by gzip and brotli."""

from collections.abc import Iterable, Iterator
from typing import Any

import brotli
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

OWN = ("bundles/", "css/", "icons/", "vendor/", "js/head.js", "django_htmx/htmx-2.min.js")
"""Files that our pages load. Others keep their names and are not compressed: third-party pages that few visits need, and the modules
that the bundles contain."""
LARGE = 300_000
"""Bytes from which brotli's highest quality takes seconds, at the first start, for 8 % fewer bytes."""


class FastCompressor(Compressor):  # type: ignore[misc]  # has no types
    """Compresses large files with a lower quality."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        """Return the compressed bytes."""
        return bytes(brotli.compress(data, quality=9 if len(data) > LARGE else 11))


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # has no types
    """Django's manifest storage. Without a manifest, as in unit tests, a file has its plain name."""

    manifest_strict = False

    def stored_name(self, name: str) -> str:
        """Return the hashed name of a collected file, the plain name of others."""
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))

    def post_process(self, paths: dict[str, Any], *args: Any, **options: Any) -> Iterator[Any]:
        """Hash and compress the files in OWN."""
        own = {name: source for name, source in paths.items() if name.startswith(OWN)}
        yield from super().post_process(own, *args, **options)

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Compress the files with hashed names, which are the ones that pages load."""
        hashed = set(self.hashed_files.values())
        yield from super().compress_files([path for path in paths if path in hashed])

    def create_compressor(self, **kwargs: Any) -> FastCompressor:
        """Return the compressor of collectstatic."""
        return FastCompressor(**kwargs)
