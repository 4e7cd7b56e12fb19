"""JSON Lines: where lines end, what is refused, and that each reader reads what each writer writes."""

import json
from pathlib import Path

import pytest

from training_core import json_lines
from training_core.config.files import parse_value
from training_core.json_lines import InvalidJson, json_line, parse_json, read_lines

TEXT = "one\u2028two\x85three\u2029\x0c\x1c four"
"""All that str.splitlines splits at, and JSON permits in a text as it is or as an escape."""


def test_a_line_ends_at_a_newline_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + b"\r\n \n".join(json.dumps(TEXT, ensure_ascii=False).encode() for _ in range(2))
    )
    assert [(line.number, line.value, line.problem) for line in read_lines(path)] == [
        (1, TEXT, ""),
        (3, TEXT, ""),
    ]


def test_a_writer_leaves_no_separator_in_a_line() -> None:
    line = json_line({"é": TEXT})
    assert len(line.splitlines()) == 1 and "é" in line and json.loads(line) == {"é": TEXT}


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{oops", "not JSON"),
        (b'"\xff"', "not UTF-8 .* at byte 2"),
        ("[" * 200_000 + "]" * 200_000, "nested more than 64 levels"),
        ("[" * 66 + "]" * 66, "nested more than 64 levels"),
        ("9" * 6000, "too many digits"),
        (r'{"a": ["\u0000"]}', "NUL"),
        (r'{"\ud800": 1}', r"surrogate pair, \\ud800"),
    ],
)
def test_what_cannot_be_used_is_one_error(tmp_path: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidJson, match=reason):
        parse_json(text)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + (text if isinstance(text, bytes) else text.encode()) + b"\n2\n")
    first, second, third = read_lines(path)
    assert second.number == 2 and second.problem and (first.value, third.value) == (1, 2)


def test_a_pair_of_surrogates_and_deep_data_are_read() -> None:
    assert parse_json(r'"\ud83d\ude00"') == "\N{GRINNING FACE}"
    assert parse_json("[" * 64 + "1" + "]" * 64)


def test_a_line_that_is_too_long_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'"' + b"a" * (3 << 20) + b'"\n2')
    assert [(line.number, line.value) for line in read_lines(path)] == [(1, None), (2, 2)]


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "9" * 6000, "{a=" * 900 + "1" + "}" * 900])
def test_a_value_of_toml_that_cannot_be_parsed_is_a_text(text: str) -> None:
    assert parse_value(text) == text
