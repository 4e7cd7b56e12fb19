"""Removes secrets from the logs and shortens the entries of rejected requests."""

import logging
import os
import re
from copy import copy

from workers.provenance.redaction import MASK, without_secrets

LONGEST_REFUSAL = 300
"""Maximum characters of the line about a rejected request."""
_LINK = re.compile(r"(?i)((?:/|%2F)(?:account(?:/|%2F)link|shared)(?:/|%2F))(?:(?!%2F)[^/\s\"'?&])+")
"""The address of a login link or a share link; in a query (?next=) it is percent-encoded."""
_OWN = ("TROUPE_SECRET_KEY", "RAY_AUTH_TOKEN", "TROUPE_TOKEN")


def redact(text: str) -> str:
    """Return the text without secrets, login and share links, and without this process's own secrets wherever they stand."""
    text = without_secrets(_LINK.sub(rf"\1{MASK}", text))
    for name in _OWN:
        value = os.environ.get(name, "")
        if len(value) >= 8:
            text = text.replace(value, MASK)
    return text


class RedactingFormatter(logging.Formatter):
    """A plain formatter whose text, tracebacks included, is redacted.

    A response below 500 is one short line: its cause is the request, so no traceback is needed, and a client that sends
    many such requests cannot fill the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record and redact secrets."""
        if getattr(record, "status_code", 500) >= 500:
            return redact(super().format(record))
        record = copy(record)
        record.exc_info = record.exc_text = None
        line = redact(super().format(record))
        return line if len(line) <= LONGEST_REFUSAL else f"{line[:LONGEST_REFUSAL]}…"
