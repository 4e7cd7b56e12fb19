"""Static files of the pages: bundles of scripts and style sheets, hashed names that browsers keep, compression by gzip and brotli.

A page needs few requests. A module that a template names in a `script` tag is an entry. The bundle of an entry contains all modules
that the entry imports, except those of BASE, which every page loads first, and those of another entry that it imports, which its page
loads before it. A module is evaluated once per page, also if several bundles contain it.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import brotli
from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

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


BASE = "app.js"
"""The entry of every page."""
SHEETS = {
    "base.css": ("tokens", "base", "layout", "components"),
    "run.css": ("charts", "run", "notes"),
}
"""Style sheets by bundle, in their order: those of every page, and those of every page of a run."""
_TAG = re.compile(r"\{% script [\"']([\w/-]+\.js)[\"'] %\}")
_IMPORT = re.compile(r'^import (?:(?P<names>\{[^}]*\}) from )?"(?P<path>[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (?P<name>\w+))", re.MULTILINE)
_LEFT = re.compile(r"(?:^(?:import|export)\b|\bimport\().*", re.MULTILINE)
"""Statements that the two patterns above do not cover."""
_MODULE = """modules["{name}"] ??= (() => {{
{head}{body}
return {{ {exports} }};
}})();
"""


class BundleError(ValueError):
    """A module cannot be bundled: it uses an unknown form of import or export, or imports itself through others."""


class Bundles:
    """The modules of a folder and the bundles made of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._imports: dict[str, list[tuple[str, str]]] = {}
        self._texts: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        """Modules as a bundle contains them."""
        for path in sorted(folder.rglob("*.js")):
            self._read(path.resolve().relative_to(folder.resolve()).as_posix(), path.read_text())

    def text(self, entry: str, entries: Collection[str] = (BASE,)) -> str:
        """Return the bundle of one of the entries."""
        order = self._ordered(entry)
        others = {BASE, *order}.intersection(entries) - {entry} if entry != BASE else set()
        loaded = {name for other in others for name in self._ordered(other)}
        modules = [self._module(name) for name in order if name not in loaded]
        return "".join(["const modules = (globalThis.pageModules ??= {});\n", *modules])

    def _read(self, name: str, text: str) -> None:
        folder = self._folder / Path(name).parent
        self._imports[name] = [
            (
                (folder / match["path"]).resolve().relative_to(self._folder.resolve()).as_posix(),
                match["names"] or "",
            )
            for match in _IMPORT.finditer(text)
        ]
        self._texts[name] = text

    def _ordered(self, entry: str) -> list[str]:
        """Return the entry and its imports, imported modules first, as browsers evaluate them."""
        order: dict[str, None] = {}

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                raise BundleError(f"modules import each other: {' -> '.join((*path, name))}")
            if name not in order:
                for imported, _ in self._imports[name]:
                    visit(imported, (*path, name))
                order[name] = None

        visit(entry, ())
        return list(order)

    def _module(self, name: str) -> str:
        if name not in self._modules:
            self._modules[name] = self._converted(name)
        return self._modules[name]

    def _converted(self, name: str) -> str:
        exports = [match["name"] for match in _EXPORT.finditer(self._texts[name])]
        body = _EXPORT.sub("", _IMPORT.sub("", self._texts[name]))
        if left := _LEFT.search(body):
            raise BundleError(f"{name}: a bundle cannot contain this statement: {left[0].strip()}")
        head = "".join(
            f'const {names.replace(" as ", ": ")} = modules["{path}"];\n'
            for path, names in self._imports[name]
            if names
        )
        return _MODULE.format(name=name, head=head, body=body.strip(), exports=", ".join(exports))


def entries(templates: Path) -> set[str]:
    """Return the modules that the templates of a folder name."""
    return {name for path in templates.rglob("*.html") for name in _TAG.findall(path.read_text())}


def bundle_texts(static: Path, templates: Path) -> dict[str, str]:
    """Return the texts of all bundles by file name."""
    modules = Bundles(static / "js")
    names = sorted(entries(templates))
    scripts = {name: modules.text(name, names) for name in names}
    return scripts | {
        bundle: "".join((static / "css" / f"{name}.css").read_text() for name in names)
        for bundle, names in SHEETS.items()
    }


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
