"""Secrets do not reach the logs."""

import logging

import pytest

from webapp.accounts.secrets import PREFIX, new_secret
from webapp.common.redaction import RedactingFormatter, redact


@pytest.mark.parametrize(
    ("text", "secret", "kept"),
    [
        ("GET /account/link/{}/ 410", "Zx9" * 14, "GET /account/link/"),
        ("Authorization: Bearer {}", "abc.def-ghi_jkl", "Authorization: Bearer "),
        ("postgres://troupe:{}@db:5432/x", "hunter2", "@db:5432/x"),
        ("token {} was sent", new_secret(PREFIX), " was sent"),
        ("redis://:{}@host/0", "hunter2", "@host/0"),
    ],
)
def test_known_shapes_are_masked(text: str, secret: str, kept: str) -> None:
    said = redact(text.format(secret))
    assert secret not in said and kept in said and "[redacted]" in said


def test_own_secrets_are_masked_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
    assert redact("x0123456789abcdefx") == "x[redacted]x"


def test_ordinary_text_stays() -> None:
    text = "run troupe_demo at http://127.0.0.1:8000/runs/abc/ took 3 s; bearer of news"
    assert redact(text) == text


def test_tracebacks_are_redacted_too() -> None:
    secret = new_secret(PREFIX)
    try:
        raise ValueError(secret)
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, __file__, 1, "failed", None, (type(error), error, error.__traceback__)
        )
    said = RedactingFormatter("%(message)s").format(record)
    assert secret not in said and "ValueError" in said
