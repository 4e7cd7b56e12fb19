"""What an import would write, before it is written."""

from pathlib import Path

import pytest

from tests.training_core.llm.datasets.test_importing import written
from training_core.errors import DataError
from training_core.llm.datasets import previews
from training_core.llm.datasets.columns import Columns
from training_core.llm.datasets.importing import Request
from training_core.llm.datasets.previews import ROWS, guess_columns, preview


def test_tasks_are_what_the_environment_shows_its_roles(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1), "level": n} for n in range(ROWS + 50)]
    source = written(tmp_path / "a.jsonl", {"question": "", "answer": "1"}, *rows)
    seen = preview(Request(source, Columns("question", "answer", keep=("level",))), tasks=2)
    assert (seen.rows, seen.invalid, seen.columns) == (ROWS, 1, ["question", "answer", "level"])
    assert "a.jsonl, line 1" in seen.first_invalid
    assert [task.messages for task in seen.tasks] == [
        ({"role": "user", "content": f"{n} + 1?"},) for n in (0, 1)
    ]
    assert seen.tasks[1].data == {"label": "2", "level": 1}


def test_a_programming_problem_shows_its_statement_and_hides_its_tests(tmp_path: Path) -> None:
    row = {"text": "double", "tests": [{"input": "2", "output": "4"}], "solution": "print(2 * int(input()))"}
    source = written(tmp_path / "test.jsonl", row)
    seen = preview(Request(source, Columns("text", tests="tests", solution="solution")))
    (task,) = seen.tasks
    assert [message["content"] for message in task.messages] == ["task double ; tests none"]
    assert task.data["tests"] == [{"input": "2", "output": "4"}] and seen.splits == []


def test_a_source_without_the_split_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "data" / "train.jsonl", {"prompt": "a"})
    with pytest.raises(DataError, match="no split 'dev'"):
        preview(Request(tmp_path / "data", split="dev"))


@pytest.mark.parametrize(
    "names, columns",
    [
        (["problem", "solution", "level"], Columns("problem", "solution")),
        (["question", "answer"], Columns("question", "answer")),
        (["problem", "test_cases", "solution"], Columns("problem", tests="test_cases", solution="solution")),
        (["a", "b"], Columns("a")),
    ],
)
def test_columns_are_guessed_by_the_names_of_public_data(names: list[str], columns: Columns) -> None:
    assert guess_columns(names) == columns


def test_a_preview_stops_after_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MOST_BYTES", 1000)
    source = written(tmp_path / "a.jsonl", *({"prompt": f"{n}" + "a" * 90} for n in range(ROWS)))
    assert 5 < preview(Request(source)).rows < 15
    pyarrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"prompt": pyarrow.array(["a" * 90] * ROWS).dictionary_encode()})
    parquet.write_table(table, tmp_path / "a.parquet", store_schema=False)
    assert 5 < preview(Request(tmp_path / "a.parquet")).rows < 15


def test_a_preview_lists_the_first_columns_of_a_wide_source(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", {f"c{number}": 0 for number in range(previews.MOST_COLUMNS + 9)})
    assert preview(Request(source)).columns == [f"c{number}" for number in range(previews.MOST_COLUMNS)]
