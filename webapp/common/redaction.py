"""Secrets do not reach the logs."""

import logging
import os
import re

MASK = "[redacted]"
_PATTERNS = [
    (re.compile(r"troupe_[A-Za-z0-9_-]{20,}"), MASK),
    (re.compile(r"(/account/link/)[^/\s\"']+"), rf"\1{MASK}"),
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
    """A plain formatter whose last word, tracebacks included, is redacted."""

    def format(self, record: logging.LogRecord) -> str:
        """See `redact`."""
        return redact(super().format(record))
