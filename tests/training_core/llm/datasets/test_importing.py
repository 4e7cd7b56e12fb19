"""`troupe data import`: rows become lines that the environments read; train and eval share no task."""

import json
from pathlib import Path
from typing import Any

import pytest

from training_core.errors import DataError
from training_core.llm.datasets.columns import Columns
from training_core.llm.datasets.importing import Imported, Request, import_data
from training_core.llm.environments import coding
from training_core.llm.environments.dataset import Dataset, split_instances

MATH = Columns(question="problem", answer="solution")


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def sums(path: Path, start: int = 0, count: int = 100) -> Path:
    rows = [
        {"problem": f"{n} + 1?", "solution": f"#### {n + 1}", "level": n % 3}
        for n in range(start, start + count)
    ]
    return written(path, *rows)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def imported(home: Path, source: Path, columns: Columns = MATH, **settings: Any) -> Imported:
    return import_data("sums", Request(source, columns, **settings), home)


def test_the_environment_reads_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    columns = Columns(question="problem", answer="solution", keep=("level",))
    result = imported(tmp_path, sums(tmp_path / "a.jsonl"), columns, eval_share=0.2)
    config = Dataset(**{path.removeprefix("environment."): value for path, value in result.settings.items()})
    train, held_out = split_instances(config, "train"), split_instances(config, "eval")
    assert (len(train), len(held_out)) == (result.train, result.held_out)
    assert result.train + result.held_out == 100 and 10 <= result.held_out <= 30
    texts = [item.messages[0]["content"] for item in (*train, *held_out)]
    assert len(set(texts)) == 100
    first = next(item for item in (*train, *held_out) if item.messages[0]["content"] == "7 + 1?")
    assert first.data["label"] == "#### 8" and first.data["level"] == 1


def test_an_import_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    source = sums(tmp_path / "a.jsonl")
    first = imported(tmp_path, source)
    files = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in first.folder.iterdir()}
    again = imported(tmp_path, source)
    assert first.changed and not again.changed and again.train == first.train
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in first.folder.iterdir()} == files


def test_other_tasks_of_the_name_are_overwritten_on_request_only(tmp_path: Path) -> None:
    imported(tmp_path, sums(tmp_path / "a.jsonl"))
    other = sums(tmp_path / "b.jsonl", start=200, count=50)
    with pytest.raises(DataError, match="--replace"):
        imported(tmp_path, other)
    assert len(lines(tmp_path / "data/sums/train.jsonl")) > 80
    result = imported(tmp_path, other, replace=True)
    assert len(lines(tmp_path / "data/sums/train.jsonl")) == result.train < 50
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["sums"]


def test_a_task_that_is_repeated_is_one_task(tmp_path: Path) -> None:
    """Also in another case and with other spaces; with another answer it is an error."""
    rows = [{"prompt": text, "label": 1} for text in ("A b?", "a  B?", "c?", "d?")]
    result = imported(tmp_path, written(tmp_path / "a.jsonl", *rows), Columns(), eval_share=0.5)
    assert (result.train + result.held_out, result.duplicates) == (3, 1)
    source = written(tmp_path / "b.jsonl", *rows, {"prompt": "C?", "label": 2})
    with pytest.raises(DataError, match="b.jsonl, line 5: the same task as b.jsonl, line 3"):
        imported(tmp_path, source, Columns())
    result = imported(tmp_path, source, Columns(), eval_share=0.5, skip_invalid=True, replace=True)
    assert (result.train + result.held_out, result.invalid) == (3, 1)


def test_a_task_in_both_parts_is_an_error(tmp_path: Path) -> None:
    source, held_out = sums(tmp_path / "a.jsonl"), sums(tmp_path / "b.jsonl", start=98, count=5)
    with pytest.raises(
        DataError,
        match="2 tasks are in training and in evaluation.*line 99 and b.jsonl, line 1.*--drop-shared",
    ):
        imported(tmp_path, source, held_out=str(held_out))
    assert not (tmp_path / "data").exists()
    result = imported(tmp_path, source, held_out=str(held_out), drop_shared=True)
    assert (result.train, result.held_out, result.shared) == (98, 5, 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{oops", "a.jsonl, line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        ({"question": "?"}, r"line 2: no column 'problem' \(--question\); there are question"),
        ({"problem": "?"}, r"line 2: no column 'solution' \(--answer\)"),
        ({f"c{number}": 0 for number in range(10**4)}, r"there are c0, (c\d+, ){18}c19 and others"),
        ({"problem": "", "solution": "1"}, "line 2: column 'problem' .* is empty"),
        ({"problem": "?", "solution": None}, "line 2: column 'solution' .* is empty"),
        ({"problem": 5, "solution": "1"}, "line 2: 'prompt' is neither"),
        ('{"problem": "?", "solution": NaN}', "line 2: .*JSON"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, row: Any, message: str) -> None:
    source = written(tmp_path / "a.jsonl", {"problem": "1 + 1?", "solution": "2"}, row)
    with pytest.raises(DataError, match=message):
        imported(tmp_path, source)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("columns", "settings", "option"),
    [
        (Columns("problem", "solution", tests="io"), {}, "--answer"),
        (Columns("problem", tests="io", keep=("level",)), {}, "--keep"),
        (Columns("problem", solution="solution"), {}, "--solution"),
        (MATH, {"held_out": "test", "eval_share": 0.2}, "--eval-share"),
        (MATH, {"drop_shared": True}, "--drop-shared"),
    ],
)
def test_an_option_without_effect_is_refused(
    tmp_path: Path, columns: Columns, settings: dict[str, Any], option: str
) -> None:
    with pytest.raises(DataError, match=f"{option} has no effect with"):
        imported(tmp_path, sums(tmp_path / "a.jsonl"), columns, **settings)


def test_splits_are_read_from_names(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    sums(folder / "data/train-00000-of-00002.jsonl", count=30)
    sums(folder / "data/train-00001-of-00002.jsonl", start=30, count=20)
    sums(folder / "data/test-00000-of-00001.jsonl", start=50, count=7)
    result = imported(tmp_path, folder, held_out="test")
    assert (result.train, result.held_out) == (50, 7)
    with pytest.raises(DataError, match=r"no split 'dev' \(splits: test, train\)"):
        imported(tmp_path, folder, split="dev")
    with pytest.raises(DataError, match="neither a split of the source nor a file"):
        imported(tmp_path, folder, held_out="validation")


def test_two_tasks_with_one_id_are_an_error(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", {"prompt": "a", "n": 1}, {"prompt": "b", "n": 1})
    with pytest.raises(DataError, match="line 1 and a.jsonl, line 2 have the same id '1'"):
        imported(tmp_path, source, Columns(id="n"), eval_share=0.5)


@pytest.mark.parametrize(
    "tests",
    [
        [{"input": "1", "output": "2"}, {"input": "2", "output": "3"}],
        {"input": ["1", "2"], "output": ["2", "3"]},
        json.dumps({"inputs": ["1", "2"], "outputs": ["2", "3"]}),
    ],
)
def test_problems_for_the_coder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: Any) -> None:
    """Tests as pairs, as two lists, or as JSON in a text; the environment draws from both files."""
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    coding.read_problems.cache_clear()
    rows = [{"text": f"problem {n}", "io": tests, "programs": ["print(1)", "print(2)"]} for n in range(20)]
    columns = Columns(question="text", tests="io", solution="programs")
    result = imported(tmp_path, written(tmp_path / "a.jsonl", *rows), columns, eval_share=0.3)
    config = coding.Coding(
        **{path.removeprefix("environment."): value for path, value in result.settings.items()}
    )
    train = {coding.CODING_TASKS.instance(config, 0, task, "train").statement for task in range(200)}
    held_out = {coding.CODING_TASKS.instance(config, 0, task, "eval").statement for task in range(200)}
    assert not train & held_out and len(train | held_out) == 20 == result.train + result.held_out
    problem = coding.CODING_TASKS.instance(config, 0, 0, "train")
    assert [(test.input, test.output) for test in problem.tests] == [("1", "2"), ("2", "3")]
    assert problem.solution == "print(1)"


def test_tests_of_unequal_lengths_are_an_error(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", {"text": "p", "io": {"input": ["1"], "output": []}})
    with pytest.raises(DataError, match="line 1: tests: neither"):
        imported(tmp_path, source, Columns(question="text", tests="io"))
