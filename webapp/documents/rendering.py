"""The pages of the documentation: sanitised HTML, headings with anchors, and what the search reads.

The files are Markdown and images of the checkout, which `files/` links to, so that a wheel has them too; tables of config fields are
made from the config classes. A table row whose first cell
begins with code (a field, a metric, a rule) has an anchor too, HEADING--NAME.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from posixpath import dirname, join, normpath

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token

from webapp.common.markdown import cleaned, markdown_parser
from webapp.documents.configuration import with_fields

FILES = Path(__file__).with_name("files")
OTHERS = {
    "README.md": "readme",
    "docker/README.md": "containers",
    "examples/README.md": "examples",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changes",
    "SECURITY.md": "security",
    "docs/use/assistants/SKILL.md": "skill",
}
"""Slugs of pages outside docs/; others have the name of their file."""
START = ""
"""Slug of the table of contents."""
CONTENTS = "docs/README.md"
"""Its file, which has the pages in their order."""
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}


@cache
def page_paths() -> dict[str, str]:
    """Return slug -> path below FILES of every page that is installed, in the order of the table of contents."""
    links = re.findall(r"\]\(([\w./-]+\.md)\)", (FILES / CONTENTS).read_text())
    paths = (normpath(join(dirname(CONTENTS), link)) for link in links)
    pages = {OTHERS.get(path, Path(path).stem): path for path in paths if (FILES / path).is_file()}
    return {START: CONTENTS} | pages


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


EXAMPLE_ORIGIN = "http://127.0.0.1:8000"
"""Address of the server in the programs and commands of the files."""
ORIGIN = "https://server.invalid"
"""Its place in the rendered HTML, where a view writes the server's own address."""
MORE = {
    "*": {"id"},
    "div": {"class", "tabindex"},
    "button": {"class", "type", "data-copy"},
    "pre": {"class", "tabindex"},
    "details": set(),
    "summary": set(),
    "picture": set(),
    "source": {"media", "srcset"},
    "img": {"src", "alt", "width", "height"},
}
"""Tags and attributes in addition to those of people's Markdown."""


@dataclass(frozen=True)
class Heading:
    """A heading below the page's title."""

    level: int
    text: str
    anchor: str


@dataclass
class Passage:
    """What the search finds: the text below a heading, or a row of a table."""

    heading: str
    anchor: str
    text: str = ""
    cells: tuple[SafeString, ...] = ()
    """HTML of the row's cells; empty for text."""
    within: str = ""
    """The heading above a row."""


@dataclass
class Document:
    """A rendered page."""

    slug: str
    title: str
    html: SafeString
    headings: list[Heading] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)


def document_get(slug: str) -> Document | None:
    """Return a page, rendered once for each state of its file; None if there is none."""
    path = page_paths().get(slug)
    return _document(slug, path, (FILES / path).stat().st_mtime_ns) if path else None


@lru_cache(maxsize=128)
def _document(slug: str, path: str, changed: int) -> Document:
    parser = markdown_parser(html=True)
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)
    text = re.sub(r"\A---\n.*?\n---\n", "", (FILES / path).read_text(), flags=re.DOTALL)  # front matter
    tokens = parser.parse(with_fields(text))
    _lead(tokens, path)
    document = Document(slug, slug, SafeString(""))
    body = list(_body(parser, tokens, document))
    html = parser.renderer.render(body, parser.options, {})
    html = html.replace("<table>", '<div class="scroll-x" tabindex="0"><table>')
    document.html = cleaned(html.replace("</table>", "</table></div>"), MORE)
    return document


def _code(self: object, tokens: Sequence[Token], index: int, *rest: object) -> str:
    text = tokens[index].content.replace(EXAMPLE_ORIGIN, ORIGIN)
    return render_to_string("common/code.html", {"id": f"code-{index}", "text": text})


def _lead(tokens: Sequence[Token], page: str) -> None:
    """Let links and images lead to URLs. A link to a file that is not served becomes plain text."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open" and (address := link_address(page, str(child.attrs["href"]))):
                child.attrs["href"] = address
            elif child.type == "link_open":
                child.tag = "span"  # removed with the tags that are not listed
            elif child.type == "image":
                child.attrs["src"] = link_address(page, str(child.attrs["src"])) or ""
            elif child.type == "html_inline":
                child.content = _images(child.content)
        if token.type == "html_block":
            token.content = _images(token.content)


def _images(html: str) -> str:
    return re.sub(r'(src|srcset)="(?:[^":]*/)?images/', r'\1="/docs/images/', html)


def _body(parser: MarkdownIt, tokens: Sequence[Token], document: Document) -> Iterator[Token]:
    """Yield the tokens below the page's title; collect headings and passages."""
    taken: dict[str, int] = {}
    passage = Passage("", "")
    row_end = -1
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            text = plain_text(tokens[index + 1])
            level = int(token.tag[1])
            if level == 1 and not passage.heading:
                document.title = text
                passage = Passage(text, "")
            else:
                passage = Passage(text, _free(anchor_of(text), taken))
                token.attrSet("id", passage.anchor)
                document.headings.append(Heading(level, text, passage.anchor))
            document.passages.append(passage)
        elif token.type == "tr_open" and (row := _row(parser, tokens, index, passage)):
            row.anchor = _free(row.anchor, taken)
            token.attrSet("id", row.anchor)
            document.passages.append(row)
            row_end = index + _length(tokens, index)
        elif token.type == "inline" and index > row_end and tokens[index - 1].type != "heading_open":
            passage.text += plain_text(token) + "\n"
        elif token.type in ("fence", "code_block"):
            passage.text += token.content + "\n"
        if token.tag != "h1" and (index == 0 or tokens[index - 1].tag != "h1" or token.type != "inline"):
            yield token


def _row(parser: MarkdownIt, tokens: Sequence[Token], index: int, above: Passage) -> Passage | None:
    """Return a row that begins with code, with all names of its first cell as its heading; None for other rows."""
    cells = [token for token in tokens[index : index + _length(tokens, index)] if token.type == "inline"]
    first = (cells[0].children or []) if cells and tokens[index + 1].type == "td_open" else []
    names = [child.content for child in first if child.type == "code_inline"]
    if not first or first[0].type != "code_inline":
        return None
    html = (parser.renderer.render([cell], parser.options, {}) for cell in cells)
    return Passage(
        ", ".join(names),
        f"{above.anchor}--{anchor_of(names[0])}",
        "\n".join(plain_text(cell) for cell in cells[1:]),
        tuple(cleaned(cell) for cell in html),
        above.heading,
    )


def _length(tokens: Sequence[Token], index: int) -> int:
    """Return the number of tokens from the start of a row to its end."""
    return next(length for length, token in enumerate(tokens[index:]) if token.type == "tr_close")


def plain_text(inline: Token) -> str:
    """Return the text of a paragraph, heading or cell."""
    return "".join(
        child.content if child.type in ("text", "code_inline", "image") else " "
        for child in inline.children or ()
        if child.type in ("text", "code_inline", "image", "softbreak", "hardbreak")
    )


def anchor_of(heading: str) -> str:
    """Return the id of a heading, as GitHub makes it, so that links in the files work there too."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _free(anchor: str, taken: dict[str, int]) -> str:
    """Return the anchor, with a number from its second use."""
    taken[anchor] = taken.get(anchor, -1) + 1
    return f"{anchor}-{taken[anchor]}" if taken[anchor] else anchor
