"""Tables in a pipe and in terminals of several widths."""

import io
from typing import Any

import pytest
from rich.console import Console

from troupe_client.cli import output
from troupe_client.cli.show import runs_table

REASON = (
    "waits for 8 GPUs; three runs before it hold the rest of the cluster until they end; " * 3 + "no more"
)
RUN = {
    "id": "abcd2345", "name": "a long name of a run that says what was varied", "state": "finished", "iteration": 100,
    "iterations": 100, "headline": {"eval/success": 0.5, "train/return": 2.0}, "eta_seconds": 4000.0, "reason": REASON,
}  # fmt: skip


def printed(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], **terminal: Any) -> list[str]:
    """Lines of the table of runs."""
    file = io.StringIO()
    monkeypatch.setattr(output, "console", Console(file=file, color_system=None, **terminal))
    output.print_table(*runs_table(rows))
    return file.getvalue().splitlines()


def test_a_run_without_a_total_shows_its_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    _, row = printed(monkeypatch, [RUN | {"iteration": 7, "iterations": 0}], width=80)
    assert " 7 " in row and "7/" not in row


def test_a_pipe_gets_every_value_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    header, row = printed(monkeypatch, [RUN], width=80)
    assert header.split() == ["id", "name", "state", "iteration", "eval/success", "left", "reason"]
    assert all(value in row for value in ("abcd2345", RUN["name"], "finished", "100/100", "0.500", REASON))


@pytest.mark.parametrize(("width", "lost"), [(130, ()), (80, ("left",)), (60, ("left", "eval/success"))])
def test_a_narrow_terminal_leaves_out_columns_not_ids(
    monkeypatch: pytest.MonkeyPatch, width: int, lost: tuple[str, ...]
) -> None:
    lines = printed(monkeypatch, [RUN, RUN | {"id": "wxyz6789"}], width=width, force_terminal=True)
    header = lines[0].split()
    assert [name for name in ("left", "eval/success") if name not in header] == list(lost)
    assert [line.split()[0] for line in lines if line[0] != " "] == ["id", "abcd2345", "wxyz6789"]
    assert all(len(line) <= width for line in lines)


def test_an_id_is_whole_in_ten_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, [RUN], width=10, force_terminal=True)
    assert lines[1].startswith("abcd2345")
