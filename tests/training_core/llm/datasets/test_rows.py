"""Files of others: made by `datasets` 5.2 (to_parquet, save_to_disk, with a cache of map beside the data)."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from training_core.errors import DataError
from training_core.llm.datasets import rows
from training_core.llm.datasets.rows import find_splits, read_rows

FILES = Path(__file__).parent / "files"
EXPECTED = [
    {"problem": f"{n} + 1?", "solution": f"#### {n + 1}", "io": [{"input": str(n), "output": str(n + 1)}]}
    for n in range(8)
]


@pytest.mark.parametrize("folder", ["saved", "parquet"])
def test_rows_of_files_that_the_library_wrote(folder: str) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    splits = find_splits(FILES / folder)
    assert set(splits) == {"train", "test"}
    rows = {split: list(read_rows(files)) for split, files in splits.items()}
    assert [row.values for row in (*rows["train"], *rows["test"])] == EXPECTED
    assert rows["test"][1].origin.endswith(", row 2")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    for name in ("a.parquet", "a.arrow"):
        (tmp_path / name).write_bytes(b"PAR1 is no table")
        with pytest.raises(DataError, match=f"cannot read .*{name}"):
            list(read_rows([tmp_path / name]))


def test_a_folder_of_the_library_has_its_own_files_only() -> None:
    """Not the cache of map."""
    splits = find_splits(FILES / "saved")
    assert [path.name for files in splits.values() for path in files] == ["data-00000-of-00001.arrow"] * 2


def test_without_pyarrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        DataError, match=r"train-.*parquet needs pyarrow: pyarrow; pip install \"troupe\[data\]\""
    ):
        list(read_rows(find_splits(FILES / "parquet")["train"]))


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match="none of .jsonl"):
        find_splits(tmp_path / "notes.txt")
    with pytest.raises(DataError, match="has no file that ends in"):
        find_splits(tmp_path)
    with pytest.raises(DataError, match="there is no file or folder"):
        find_splits(tmp_path / "none")


def test_a_value_that_a_file_has_once_is_decoded_for_few_rows_at_a_time(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"prompt": pyarrow.array(["a" * 1000] * 3000).dictionary_encode()})
    parquet.write_table(table, tmp_path / "a.parquet", store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 5000
    assert max(batch.num_rows for batch in rows._batches(tmp_path / "a.parquet")) == rows.BATCH
    assert sum(1 for _ in read_rows([tmp_path / "a.parquet"])) == 3000
