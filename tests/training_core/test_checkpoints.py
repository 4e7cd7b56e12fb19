"""Checkpoints are whole or not there; what is torn, foreign or a path trick is refused."""

import os
from pathlib import Path

import pytest

from training_core import checkpoints
from training_core.errors import CheckpointError


def write(folder: Path, iteration: int, text: str = "weights") -> Path:
    """A checkpoint with one policy of one file."""
    with checkpoints.writing(folder, iteration, {"seed": 3}) as draft:
        (draft / "planner").mkdir()
        (draft / "planner" / "model").write_text(text)
    return folder / checkpoints.name_of(iteration)


def test_what_is_written_is_found_and_read(tmp_path: Path) -> None:
    write(tmp_path, 5)
    place = write(tmp_path, 20)
    assert checkpoints.latest(tmp_path) == place == tmp_path / "iteration-000020"
    assert checkpoints.find(tmp_path, "iteration-000020") == place
    assert checkpoints.read_state(place) == {"seed": 3, "layout": 2, "iteration": 20}
    assert list(checkpoints.checkpoints(tmp_path)) == [5, 20]
    assert checkpoints.size_of(place) == len("weights") + (place / "state.json").stat().st_size
    assert sorted(item.name for item in tmp_path.iterdir()) == ["iteration-000005", "iteration-000020"]


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    place = write(tmp_path, 5, "old")
    with pytest.raises(ZeroDivisionError), checkpoints.writing(tmp_path, 5, {}) as draft:
        (draft / "model").write_text("new")
        raise ZeroDivisionError
    assert (place / "planner" / "model").read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["iteration-000005"]


@pytest.mark.parametrize("written", [(), ("executor",), ("executor", "executor/policy.json")])
def test_a_draft_without_a_trained_policy_is_no_checkpoint(written: tuple[str, ...], tmp_path: Path) -> None:
    """A process on a machine that does not mount the folder writes into its own."""
    named = "planner/policy.json" if len(written) == 2 else "executor/policy.json, planner/policy.json"
    place = write(tmp_path, 5)
    with (
        pytest.raises(
            CheckpointError,
            match=f"{named} is missing there; mount this folder at the same path on every machine of the run$",
        ),
        checkpoints.writing(tmp_path, 10, {}, ("executor", "planner")) as draft,
    ):
        for name in written:
            (draft / name).touch() if "." in name else (draft / name).mkdir()
    assert list(tmp_path.iterdir()) == [place]


def test_the_name_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies at any moment leaves no torn checkpoint under a checkpoint's name."""
    synced: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note_sync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def note_rename(self: Path, target: Path) -> Path:
        synced.append(f"rename to {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    write(tmp_path, 5)
    at = synced.index("rename to iteration-000005")
    assert {"model", "state.json", "manifest.json", "planner"} <= set(synced[:at])
    assert synced[at + 1 :] == [tmp_path.name, tmp_path.parent.name]


def test_one_of_an_earlier_attempt_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, 5, "old")
    (tmp_path / ".replaced-iteration-000005" / "planner").mkdir(parents=True)  # of a process that died
    assert (write(tmp_path, 5, "new") / "planner" / "model").read_text() == "new"
    assert [item.name for item in tmp_path.iterdir()] == ["iteration-000005"]


NO_FORMAT = "manifest.json does not have Troupe's format"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("missing", "planner/model is missing"),
        ("shorter", "planner/model has 5 bytes instead of 7"),
        ("no manifest", "manifest.json is missing"),
        ("a folder", "manifest.json cannot be read (Is a directory)"),
        ("{", "manifest.json cannot be read (it is not JSON)"),
        ("[]", NO_FORMAT),
        ('{"layout": 2, "files": {"planner/model": {"bytes": 7}}}', NO_FORMAT),
        ('{"layout": 99, "files": {}}', "manifest.json has layout 99, this version of Troupe reads 1 and 2"),
    ],
)
def test_torn_and_foreign_ones_are_refused_and_passed_over(tmp_path: Path, damage: str, reason: str) -> None:
    whole, place = write(tmp_path, 5), write(tmp_path, 6)
    model, manifest = place / "planner" / "model", place / "manifest.json"
    if damage == "missing":
        model.unlink()
    elif damage == "shorter":
        model.write_text("weigh")
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "a folder":
        manifest.unlink()
        manifest.mkdir()
    else:
        manifest.write_text(damage)
    with pytest.raises(CheckpointError) as refused:
        checkpoints.read_state(place)
    assert f"is damaged: {reason}; use another checkpoint" in str(refused.value)
    with pytest.raises(CheckpointError):
        checkpoints.find(tmp_path, place.name)
    assert checkpoints.latest(tmp_path) == whole


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError(5, "Input/output error"), "Input/output error"), (OSError(), "OSError")]
)
def test_a_file_that_cannot_be_read_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
) -> None:
    place = write(tmp_path, 5)

    def fail(file: Path) -> str:
        raise error

    monkeypatch.setattr(checkpoints, "_sha256", fail)
    assert checkpoints.damage(place) == f"its files cannot be read ({reason})"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../iteration-000005",
        "iteration-000005/..",
        "/etc",
        "iteration-5",
        "iteration-0000005",
        "iteration-000005\n",
        "iteration-٠٠٠٠٠٥",
        "",
        ".draft-abc",
        "iteration-000005\0",
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, 5)
    with pytest.raises(CheckpointError, match="use a name like iteration-000020"):
        checkpoints.find(tmp_path, name)


def test_a_link_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", 5)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "iteration-000005").symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        checkpoints.find(mine, "iteration-000005")


def test_a_missing_one_is_refused_by_naming_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there are none$"):
        checkpoints.find(tmp_path, "iteration-000006")
    write(tmp_path, 4)
    write(tmp_path, 5)
    with pytest.raises(CheckpointError, match="there are iteration-000004, iteration-000005$"):
        checkpoints.find(tmp_path, "iteration-000006")
    assert checkpoints.latest(tmp_path / "nowhere") is None


def test_the_latest_and_the_best_are_kept(tmp_path: Path) -> None:
    for iteration in (10, 20, 30, 40, 50):
        write(tmp_path, iteration)
    gone = checkpoints.retain(tmp_path, keep=2, best={10}, until=40)
    assert [place.name for place in gone] == ["iteration-000020"]
    assert list(checkpoints.checkpoints(tmp_path)) == [10, 30, 40, 50]
    assert checkpoints.retain(tmp_path, keep=4, best=()) == []


def test_drafts_of_the_dead_are_swept_and_never_found(tmp_path: Path) -> None:
    (tmp_path / ".draft-0011").mkdir()
    assert checkpoints.checkpoints(tmp_path) == {}
    place = write(tmp_path, 5)
    (tmp_path / f".replaced-{place.name}").mkdir()
    checkpoints.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [place]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write"), checkpoints.writing(tmp_path / "file", 5, {}):
        pass
