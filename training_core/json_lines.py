"""JSON Lines of others: one JSON value per line, which ends at a newline only, whatever separators a text has in it.

JSON that Python can parse and nothing else can use is refused by the same error: nesting, numbers of thousands of digits, NUL, parts of
surrogate pairs.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LONGEST = 64 << 20
"""Maximum bytes of a line."""
DEEPEST = 64
"""Maximum nesting of lists and objects."""
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Line separators that JSON permits in a text, and that many readers split at."""
_ODD = re.compile(r"[\0\ud800-\udfff]")


class InvalidJson(ValueError):
    """A text is not JSON, or has values that cannot be stored."""


@dataclass(frozen=True)
class Line:
    """A line that is not empty."""

    number: int
    """From 1; empty lines count."""
    value: Any = None
    problem: str = ""
    """Why the line is invalid; `value` is then None."""
    size: int = 0
    """Bytes of a line that is read."""


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file, without empty ones; a byte order mark is skipped. Raises OSError."""
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file), start=1):
            if line is None:
                yield Line(number, problem=f"longer than {LONGEST >> 20} MiB")
            elif line.strip():
                yield _line(number, line)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises InvalidJson."""
    try:
        value = json.loads(text.decode() if isinstance(text, bytes) else text)
        check_values(value)
    except UnicodeDecodeError as error:
        raise InvalidJson(f"not UTF-8 ({error.reason} at byte {error.start + 1})") from error
    except json.JSONDecodeError as error:
        raise InvalidJson(f"not JSON ({error.msg})") from error
    except RecursionError as error:
        raise InvalidJson(_too_deep()) from error
    except InvalidJson:
        raise
    except ValueError as error:  # Python converts at most 4,300 digits
        raise InvalidJson("a number has too many digits") from error
    return value


def check_values(value: Any) -> None:
    """Raises InvalidJson for a value that is nested too deeply, or has a text with NUL or a part of a surrogate pair."""
    level = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                below += [*item, *item.values()]
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise InvalidJson(_too_deep())


def json_line(value: Any, **options: Any) -> str:
    """Return a value as a line. Letters are written as they are, line separators in a text as escapes."""
    return json.dumps(value, ensure_ascii=False, **options).translate(_SEPARATORS) + "\n"


def _lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """The lines; None in place of one that is too long."""
    if file.read(len(_BOM)) != _BOM:
        file.seek(0)
    while line := file.readline(LONGEST + 1):
        whole = len(line) <= LONGEST
        while len(line) > LONGEST and not line.endswith(b"\n"):
            line = file.readline(LONGEST + 1)
        yield line if whole else None


def _line(number: int, line: bytes) -> Line:
    try:
        return Line(number, parse_json(line), "", len(line))
    except InvalidJson as error:
        return Line(number, None, str(error), len(line))


def _check_text(text: str) -> None:
    if odd := _ODD.search(text):
        what = "NUL" if odd[0] == "\0" else f"a part of a surrogate pair, \\u{ord(odd[0]):04x}"
        raise InvalidJson(f"a text contains {what}")


def _too_deep() -> str:
    return f"lists and objects are nested more than {DEEPEST} levels deep"
