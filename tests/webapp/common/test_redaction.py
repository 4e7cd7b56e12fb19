"""Secrets: redacted in logs and messages, sealed in the database."""

import logging
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured, PermissionDenied

from webapp.accounts.tokens import PREFIX, new_secret
from webapp.common.redaction import LONGEST_REFUSAL, RedactingFormatter, redact
from webapp.common.sealing import Unreadable, seal, unseal


@pytest.mark.parametrize(
    ("text", "secret", "kept"),
    [
        ("GET /account/link/{}/ 410", "Zx9" * 14, "GET /account/link/"),
        ("Authorization: Bearer {}", "abc.def-ghi_jkl", "Authorization: Bearer "),
        ("postgres://troupe:{}@db:5432/x", "hunter2", "@db:5432/x"),
        ("token {} was sent", PREFIX + "Zx-9_" * 9, " was sent"),
        ("redis://:{}@host/0", "hunter2", "@host/0"),
        ("Forbidden (CSRF cookie not set.): /shared/{}/", "Zx9" * 14, "/shared/"),
        ("Not Found: /shared/{}/export", "Zx-9_" * 9, "/export"),
        ("GET /account/login/?next=%2Fshared%2F{}%2F 200", "Zx9" * 14, "%2Fshared%2F"),
        ("GET /x/?next=/account/link/{}/&a=b 200", "Zx9" * 14, "&a=b"),
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


def record_of(error: BaseException, status: int, text: str = "Forbidden") -> logging.LogRecord:
    record = logging.LogRecord(
        "django.request", logging.WARNING, __file__, 1, text, None, (type(error), error, error.__traceback__)
    )
    record.status_code = status
    return record


def test_a_refused_request_is_one_short_line() -> None:
    formatter = RedactingFormatter("%(message)s")
    assert formatter.format(record_of(PermissionDenied("no"), 403)) == "Forbidden"
    assert len(formatter.format(record_of(PermissionDenied("no"), 404, "x" * 9000))) == LONGEST_REFUSAL + 1
    assert "PermissionDenied: no" in formatter.format(record_of(PermissionDenied("no"), 500))


def test_a_secret_at_the_end_of_a_cut_line_is_redacted() -> None:
    secret = new_secret(PREFIX)
    text = "y" * (LONGEST_REFUSAL - 15) + secret
    assert secret[:12] not in RedactingFormatter("%(message)s").format(record_of(KeyError(), 404, text))


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


def test_a_text_comes_back_and_shows_nothing() -> None:
    sealed = seal("slack://tökens/secret", "address")
    assert unseal(sealed, "address") == "slack://tökens/secret"
    assert "secret" not in sealed and sealed != seal("slack://tökens/secret", "address")


def test_for_another_purpose_under_another_key_or_changed_it_is_unreadable(settings: Any) -> None:
    sealed = seal("secret", "address")
    for wrong, purpose in ((sealed, "other"), (sealed[:-8] + "AAAAAAA=", "address"), ("", "address")):
        with pytest.raises(Unreadable):
            unseal(wrong, purpose)
    settings.SECRET_KEY = "another one"
    with pytest.raises(Unreadable, match="TROUPE_SECRET_KEY"):
        unseal(sealed, "address")


def test_nothing_is_sealed_under_the_key_that_everybody_knows(settings: Any) -> None:
    settings.SECRET_KEY = settings.NO_SECRET_KEY
    with pytest.raises(ImproperlyConfigured, match="TROUPE_SECRET_KEY"):
        seal("secret", "address")
