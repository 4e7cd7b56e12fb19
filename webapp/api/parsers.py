"""Request bodies: JSON, with the maximum size and depth of a run config."""

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser

MAX_BODY = 1 << 20
"""Bytes."""
MAX_DEPTH = 32
"""Maximum levels of nesting."""


class TooLarge(APIException):
    """413."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = f"a request can have at most {MAX_BODY} bytes"


class StrictJSONParser(BaseParser):
    """Strict JSON: no NaN, infinities, lone surrogates, NUL characters or deep nesting."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the body's data. Raises TooLarge, ParseError."""
        body = stream.read(MAX_BODY + 1)
        if len(body) > MAX_BODY:
            raise TooLarge
        if b"\\u0000" in body.lower():
            raise ParseError("text cannot contain NUL characters")
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ParseError(f"the body is not valid JSON: {str(error)[:200]}") from error
        if _deep(data):
            raise ParseError(f"the body is nested deeper than {MAX_DEPTH} levels")
        return data


def _deep(data: Any) -> bool:
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [node for node in level if type(node) in (dict, list)]
        if not level:
            return False
        level = [item for node in level for item in (node.values() if type(node) is dict else node)]
    return True
