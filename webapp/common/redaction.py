"""Secrets do not reach the logs, and refused requests do not fill them."""

import logging
import os
import re
from copy import copy

MASK = "[redacted]"
LONGEST_REFUSAL = 300
"""Characters of the line about a request that was refused."""
_PATTERNS = [
    (re.compile(r"troupe_[A-Za-z0-9_-]{20,}"), MASK),
    # Links are addresses; in a query (?next=) they are percent-encoded.
    (
        re.compile(r"(?i)((?:/|%2F)(?:account(?:/|%2F)link|shared)(?:/|%2F))(?:(?!%2F)[^/\s\"'?&])+"),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)"), rf"\1{MASK}\2"),
]
_OWN = ("TROUPE_SECRET_KEY", "RAY_AUTH_TOKEN", "TROUPE_TOKEN", "TROUPE_INGEST_TOKEN")


def redact(text: str) -> str:
    """The text without tokens, login links, passwords in addresses, or this process's own secrets."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    for name in _OWN:
        value = os.environ.get(name, "")
        if len(value) >= 8:
            text = text.replace(value, MASK)
    return text


class RedactingFormatter(logging.Formatter):
    """A plain formatter whose text, tracebacks included, is redacted.

    An answer below 500 is one short line: its cause is the request, so there is no traceback to keep, and whoever sends
    many such requests does not fill the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `redact`."""
        if getattr(record, "status_code", 500) >= 500:
            return redact(super().format(record))
        record = copy(record)
        record.exc_info = record.exc_text = None
        line = redact(super().format(record))
        return line if len(line) <= LONGEST_REFUSAL else f"{line[:LONGEST_REFUSAL]}…"
