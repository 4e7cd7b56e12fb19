"""What `make docs-site` does in addition to mkdocs: the pages in the order of docs/README.md, with the tables of config fields."""

import re
from pathlib import Path
from posixpath import join, normpath

from mkdocs.config.defaults import MkDocsConfig

from webapp.documents.configuration import with_fields

CONTENTS = Path(__file__).with_name("README.md")


def on_config(config: MkDocsConfig) -> None:
    """Group the pages by the headings of the table of contents."""
    sections = re.findall(r"^## (.+)$([^#]+)", CONTENTS.read_text(), re.MULTILINE)
    config.nav = [{"Documentation": "docs/README.md"}]
    for title, rows in sections:
        links = re.findall(r"\]\(([\w./-]+\.md)\)", rows)
        config.nav.append({title: [normpath(join("docs", link)) for link in links]})


def on_page_markdown(markdown: str, **context: object) -> str:
    """Fill in the tables of fields."""
    return with_fields(markdown)
