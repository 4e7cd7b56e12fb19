"""The documentation's files: Markdown pages and images of the checkout, which `files/` links to, so that a wheel has them too."""

from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath

FILES = Path(__file__).with_name("files")
OTHERS = {
    "readme": "README.md",
    "containers": "docker/README.md",
    "contributing": "CONTRIBUTING.md",
    "changes": "CHANGELOG.md",
}
"""Pages outside docs/, by their slug."""
START = ""
"""Slug of docs/README.md, the table of all pages."""
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}


@cache
def page_paths() -> dict[str, str]:
    """Return slug -> path below FILES of every page that is installed."""
    docs = {path.stem: f"docs/{path.name}" for path in sorted((FILES / "docs").glob("*.md"))}
    paths = {START: docs.pop("README", "docs/README.md")} | docs | OTHERS
    return {slug: path for slug, path in paths.items() if (FILES / path).is_file()}


def page_address(slug: str) -> str:
    """Return the path of a page's URL."""
    return f"/docs/{slug}/" if slug else "/docs/"


def image_path(name: str) -> Path | None:
    """Return the file of an image; None if there is none."""
    path = FILES / "docs" / "images" / name
    return path if path.suffix in IMAGES and path.is_file() else None


def link_address(page: str, target: str) -> str | None:
    """Return the URL of a link's target as written in the page with this path; None if it leads to no served file."""
    if target.startswith(("http://", "https://", "mailto:", "#")):
        return target
    path, _, anchor = target.partition("#")
    path = normpath(join(dirname(page), path))
    if path.startswith("docs/images/"):
        return f"/{path}"
    slug = next((slug for slug, known in page_paths().items() if known == path), None)
    return None if slug is None else page_address(slug) + (f"#{anchor}" if anchor else "")
