"""Reads a page as a browser does: its elements by selector, their attributes and their text."""

import re
from html.parser import HTMLParser

from django.http import HttpResponse

INLINE = {"a", "abbr", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "span", "strong", "time"}
VOID = {"br", "col", "hr", "img", "input", "link", "meta"}
PART = re.compile(r'^([\w-]+)|#([\w-]+)|\.([\w-]+)|\[([\w-]+)(?:="?([^"\]]*)"?)?\]')


class Element:
    """An element of a page: its tag, attributes, text, and the elements around it."""

    def __init__(self, tag: str, attributes: dict[str, str], above: list["Element"]) -> None:
        self.tag, self.attributes, self.above = tag, attributes, above
        self.pieces: list[str] = []

    @property
    def content(self) -> str:
        """Its text as it is in the page."""
        return "".join(self.pieces).strip()

    @property
    def text(self) -> str:
        """Its text, in which whitespace counts once."""
        return " ".join(self.content.split())

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def selected(self, simple: str) -> bool:
        """Whether a selector without descendants selects it."""
        for tag, id_, class_, name, value in PART.findall(simple):
            if tag and self.tag != tag or id_ and self.attributes.get("id") != id_:
                return False
            if class_ and class_ not in self.attributes.get("class", "").split():
                return False
            if name and (name not in self or value and self[name] != value):
                return False
        return True


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._between(tag)
        self.found.append(Element(tag, {name: value or "" for name, value in attrs}, [*self.open]))
        if tag not in VOID:
            self.open.append(self.found[-1])

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop().tag != tag:
            pass
        self._between(tag)

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each.pieces.append(data)

    def _between(self, tag: str) -> None:
        if tag not in INLINE:
            self.handle_data(" ")


def elements(page: str | HttpResponse, selector: str) -> list[Element]:
    """The elements that a selector of tags, #ids, .classes, [names], [names=values] and descendants selects."""
    reader = _Reader()
    reader.feed(page if isinstance(page, str) else page.content.decode())
    *above, last = re.findall(r"(?:\[[^\]]*\]|[^\s\[])+", selector)
    return [each for each in reader.found if each.selected(last) and _below(each, above)]


def _below(element: Element, above: list[str]) -> bool:
    waiting = [*above]
    for each in reversed(element.above):
        if waiting and each.selected(waiting[-1]):
            waiting.pop()
    return not waiting


def texts_of(page: str | HttpResponse, selector: str) -> list[str]:
    """The texts of the elements that a selector selects."""
    return [each.text for each in elements(page, selector)]


def text_of(page: str | HttpResponse, selector: str = "main") -> str:
    """The text of the one element that a selector selects."""
    (only,) = texts_of(page, selector)
    return only
