"""Query parameters: every parameter is parsed, or rejected by its name."""

from collections.abc import Collection

from rest_framework.exceptions import ParseError
from rest_framework.request import Request

TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")


def text(request: Request, name: str) -> str:
    """Return text without NUL characters, which the database cannot query; empty by default. Raises ParseError."""
    value = request.query_params.get(name, "")
    if "\0" in value:
        raise ParseError(f"{name}: text cannot contain NUL characters")
    return value


def choice(request: Request, name: str, choices: Collection[str]) -> str:
    """Return one of the choices, or empty. Raises ParseError."""
    value = text(request, name)
    if value and value not in choices:
        raise ParseError(f"{name}={value[:40]!r}: use one of {', '.join(choices)}")
    return value


def number(request: Request, name: str, default: int, least: int = 0) -> int:
    """Return an integer of at least `least`. Raises ParseError."""
    value = request.query_params.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdecimal()) or len(value) > 18 or int(value) < least:
        raise ParseError(f"{name}={value[:40]!r}: give an integer of at least {least}")
    return int(value)


def truth(request: Request, name: str) -> bool | None:
    """Return true or false; None if missing. Raises ParseError."""
    value = text(request, name).lower()
    if value and value not in TRUE + FALSE:
        raise ParseError(f"{name}={value[:40]!r}: use true or false")
    return value in TRUE if value else None
