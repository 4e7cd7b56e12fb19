"""Output of processes as lines of a run's log: codes, secrets, tracebacks, long lines, and far too many lines."""

from workers.telemetry.limits import MAX_TEXT
from workers.telemetry.output import BURST, LONGEST, ProcessOutput, Splitter, shown

Lines = list[tuple[str, str, str]]


def reported(clock: list[float]) -> tuple[ProcessOutput, Lines]:
    lines: Lines = []
    output = ProcessOutput(lambda level, source, text: lines.append((level, source, text)), lambda: clock[0])
    return output, lines


def test_codes_secrets_and_empty_lines_are_removed() -> None:
    output, lines = reported([0.0])
    output.lines(
        "environment-3", "stdout", ["\x1b[31mred\x1b[0m", "", "api_key = 'abcdef123456'", " 9%\r 99%\r"]
    )
    assert lines == [
        ("output", "environment-3", "red"),
        ("output", "environment-3", "api_key = '[redacted]'"),
        ("output", "environment-3", " 99%"),
    ]


def test_a_traceback_is_one_error_also_in_pieces() -> None:
    output, lines = reported([0.0])
    text = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    1 / 0",
        "ZeroDivisionError: no",
    ]
    for line in text:
        output.lines("driver", "stderr", [line])
        output.lines("driver", "stdout", ["meanwhile"])
    output.lines("driver", "stderr", ["after", text[0], "  cut off"])
    assert [line for line in lines if line[2] != "meanwhile"] == [
        ("error", "driver", "\n".join(text)),
        ("output", "driver", "after"),
    ]
    output.close()
    assert lines[-1] == ("error", "driver", f"{text[0]}\n  cut off")
    output.lines("driver", "stderr", [text[0], *(["  deep" * 100] * (MAX_TEXT // 500))])
    assert lines[-1][0] == "output" and "error" in [level for level, *_ in lines[-10:]], "it is bounded"


def test_lines_above_the_rate_are_counted_per_process() -> None:
    clock = [0.0]
    output, lines = reported(clock)
    output.lines("a", "stdout", (f"line {number}" for number in range(int(BURST) + 7)))
    output.lines("b", "stdout", ["quiet"])
    assert len(lines) == int(BURST) + 1 and lines[-1] == ("output", "b", "quiet")
    for second in range(1, 4):  # 1,000 lines a second are no problem at any time
        clock[0] = float(second)
        output.lines("a", "stdout", ["again"] * 1000)
    left_out = [line for line in lines if line[0] == "warning"]
    assert left_out == [("warning", "a", "7 lines of output were left out: too many at once")]
    assert len(lines) == int(BURST) + 2 + 3000


def test_lines_have_a_maximum_length() -> None:
    assert shown("x" * (LONGEST + 5)) == "x" * LONGEST + "… (5 more characters)"
    splitter = Splitter()
    assert splitter.add("a\nb") == ["a"] and splitter.add("c\n") == ["bc"]
    assert splitter.add("\r 10%" * LONGEST) == []
    assert splitter.end() == [" 10%"] and splitter.end() == []
    assert splitter.add("y" * (LONGEST + 1)) == ["y" * (LONGEST + 1)]
