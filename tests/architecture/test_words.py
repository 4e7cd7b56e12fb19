"""The check of unusual words, which `make lint` runs, finds what it should."""

from pathlib import Path

import pytest

from tests.architecture import words


def test_words_are_found_in_names_and_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "seats.py").write_text(
        '"""A port beside another."""\n\nclass OldForest:\n    known: int = 1\n\n    def find(self, place):\n        found = place\n'
    )
    (tmp_path / "page.md").write_text("The run goes on.\n")
    found = {finding for path in words.sources() for finding in words.words_of(path)}
    assert found == {
        "page.md:1: goes on", "seats.py:1: beside", "seats.py:1: seats", "seats.py:3: forest", "seats.py:4: known",
        "seats.py:6: place", "seats.py:7: found",
    }  # fmt: skip


def test_exceptions_name_files_that_exist() -> None:
    assert not [name for name, _ in words.ALLOWED if not (words.ROOT / name).exists()]
