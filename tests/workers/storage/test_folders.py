"""A worker that does not see the driver's folder is found out, whatever is at the same path there."""

import os
from pathlib import Path

import pytest

from tests.workers.running import events, small_config
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt
from workers.storage.folders import FolderNotShared, RunFolder, check_mark, marked


def test_a_process_that_sees_the_folder_passes(tmp_path: Path) -> None:
    with marked(tmp_path) as mark:
        check_mark(None, mark)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exists", [False, True], ids=["no-folder", "another-folder"])
def test_a_process_with_another_folder_is_named(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "n3")
    folder = tmp_path / "run"
    folder.mkdir()
    with marked(folder) as mark:
        folder.rename(tmp_path / "elsewhere")
        if exists:
            folder.mkdir()
        with pytest.raises(FolderNotShared) as raised:
            check_mark(None, mark)
    for part in ("n3", str(folder), "TROUPE_HOME", "docs/start/getting-started.md"):
        assert part in str(raised.value)


def test_a_token_is_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.write_token(2, "first")
    folder.write_token(2, "again")
    (file,) = folder.attempt(2).iterdir()
    assert (folder.token(2), file.stat().st_mode & 0o777) == ("again", 0o600)
    with pytest.raises(FolderNotShared, match=r"attempt-1/ingest\.json"):
        folder.token(1)

    def refuse(_: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)  # the tests may run as root, who may read all files
    with pytest.raises(FolderNotShared, match="may not read"):
        folder.token(2)


@pytest.mark.ray
@pytest.mark.extended
def test_a_run_whose_workers_do_not_see_its_folder_fails(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    """A descriptor of this process is the driver's folder: for every other process the path leads elsewhere."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        folder = Path(f"/proc/self/fd/{descriptor}")
        attempt = Attempt(small_config(little_model), "unseen", 1, folder, little_model.parent)
        assert run_attempt(attempt, local=False) == FAILED
    finally:
        os.close(descriptor)
    last = events(tmp_path, "status")[-1]
    assert last["state"] == "failed"
    assert f"does not see the driver's folder {folder}" in last["message"]
    assert last["remedy"].startswith("Mount TROUPE_HOME")
    assert not any("train/return" in event["values"] for event in events(tmp_path, "metrics"))
