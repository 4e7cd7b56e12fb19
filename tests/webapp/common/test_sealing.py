"""Sealed texts: readable with the key and for the purpose alone, and not made without a key."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from webapp.common.sealing import Unreadable, seal, unseal


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
