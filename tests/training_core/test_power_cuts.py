"""A power cut at any moment of a checkpoint's writing leaves a folder in which the last whole one is found."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.training_core.power_cuts import (
    Contents,
    contents,
    flipped,
    half_written,
    killed_at,
    lay_down,
    lose_unsynced,
    reordered,
)
from training_core import checkpoints
from training_core.checkpoints import DRAFT, damage, latest, name_of, retain, sweep, writing
from training_core.errors import CheckpointError

WEIGHTS = {1: b"first weights", 2: b"second weights", 3: b"third"}


def write(folder: Path, iteration: int) -> Path:
    """A small checkpoint of two policies."""
    with writing(folder, iteration, {"best": [], "progress": {"episodes": iteration}}) as draft:
        for policy in ("planner", "executor"):
            (draft / policy).mkdir()
            (draft / policy / "model.safetensors").write_bytes(WEIGHTS[iteration] + policy.encode())
        (draft / "rollout_buffer.json").write_text('{"finished": [], "delivery": 0}')
    return folder / name_of(iteration)


@pytest.fixture
def whole(tmp_path: Path) -> Contents:
    """The files of checkpoint 3, which is being written while 1 and 2 are there; it is gone again."""
    for iteration in (1, 2):
        write(tmp_path, iteration)
    place = write(tmp_path, 3)
    files = contents(place)
    shutil.rmtree(place)
    return files


def recovered(folder: Path) -> tuple[str, bytes]:
    """What the next attempt finds: the name, and the planner's weights."""
    sweep(folder)
    place = latest(folder)
    assert place is not None
    return place.name, (place / "planner" / "model.safetensors").read_bytes()


SECOND = ("iteration-000002", b"second weightsplanner")
THIRD = ("iteration-000003", b"thirdplanner")


def test_a_cut_at_every_byte_of_a_draft_leaves_the_checkpoint_before(whole: Contents, tmp_path: Path) -> None:
    states = 0
    for state in half_written(whole, every=True):
        lay_down(tmp_path / f"{DRAFT}0011", state)
        assert recovered(tmp_path) == SECOND
        assert not list(tmp_path.glob(f"{DRAFT}*"))
        states += 1
    assert states == sum(map(len, whole.values()))
    lay_down(tmp_path / "iteration-000003", whole)
    assert recovered(tmp_path) == THIRD


@pytest.mark.extended
def test_writes_in_another_order_are_found_out_at_every_byte(whole: Contents, tmp_path: Path) -> None:
    """The name is there, but some file is absent, cut, or was never filled."""
    for state in reordered(whole, every=True):
        lay_down(tmp_path / "iteration-000003", state)
        assert recovered(tmp_path) == SECOND


@pytest.mark.extended
def test_every_flipped_bit_is_found_out(whole: Contents, tmp_path: Path) -> None:
    place = tmp_path / "iteration-000003"
    lay_down(place, whole)
    assert damage(place) == ""
    for state in flipped(whole, every=True):
        name = next(each for each in state if state[each] != whole[each])
        (place / name).write_bytes(state[name])
        assert damage(place)
        (place / name).write_bytes(whole[name])


def steps(folder: Path, work: Callable[[], None]) -> Iterator[int]:
    """Every file operation of `work` at which its process is ended, in a folder as it was before."""
    before, step = {item.name: contents(item) for item in folder.iterdir() if item.is_dir()}, 0
    while True:
        step += 1
        shutil.rmtree(folder)
        for name, files in before.items():
            lay_down(folder / name, files)
        ended, synced = killed_at(step, work)
        if not ended:
            return
        lose_unsynced(folder, synced)
        yield step


@pytest.mark.slow
def test_a_process_killed_at_any_step_leaves_the_old_or_the_new(whole: Contents, tmp_path: Path) -> None:
    found = [recovered(tmp_path) for _ in steps(tmp_path, lambda: write(tmp_path, 3) and None)]
    assert len(found) > 20
    assert set(found) == {SECOND, THIRD}
    assert found == sorted(found), "once the new one is found, it is found after every later step"


@pytest.mark.slow
def test_a_kill_during_replacement_leaves_the_old_or_new_checkpoint(tmp_path: Path) -> None:
    WEIGHTS_BEFORE = dict(WEIGHTS)
    write(tmp_path, 1), write(tmp_path, 2)
    WEIGHTS[2] = b"again"
    try:
        found = [recovered(tmp_path) for _ in steps(tmp_path, lambda: write(tmp_path, 2) and None)]
    finally:
        WEIGHTS.update(WEIGHTS_BEFORE)
    assert set(found) == {SECOND, ("iteration-000002", b"againplanner")}


@pytest.mark.extended
def test_a_process_killed_while_it_deletes_leaves_no_part_under_a_name(tmp_path: Path) -> None:
    for iteration in (1, 2, 3):
        write(tmp_path, iteration)
    for _ in steps(tmp_path, lambda: retain(tmp_path, 1, ()) and None):
        assert recovered(tmp_path) == THIRD
        assert all(not damage(place) for place in checkpoints.checkpoints(tmp_path).values())


def test_one_that_is_pinned_while_it_is_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for iteration in (1, 2):
        write(tmp_path, iteration)
    rename = Path.rename

    def pinned_just_before(self: Path, target: Path) -> Path:
        (tmp_path / ".pinned").mkdir(exist_ok=True)
        (tmp_path / ".pinned" / "iteration-000001").touch()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", pinned_just_before)
    assert retain(tmp_path, 1, ()) == []
    assert list(checkpoints.checkpoints(tmp_path)) == [1, 2]


def test_what_is_wrong_is_said_file_by_file(tmp_path: Path) -> None:
    place = write(tmp_path, 1)
    model = place / "planner" / "model.safetensors"
    size = model.stat().st_size
    model.write_bytes(model.read_bytes()[:4])
    (place / "rollout_buffer.json").unlink()
    assert damage(place) == (
        f"planner/model.safetensors has 4 bytes instead of {size}, rollout_buffer.json is missing"
    )
    (place / "executor" / "model.safetensors").write_bytes(b"")
    assert "more" not in damage(place)
    (place / "state.json").write_bytes(b"")
    assert damage(place).endswith(" and 1 more files")
    assert str(tmp_path) not in damage(place)
    with pytest.raises(CheckpointError, match="is damaged: executor/model.safetensors has 0 bytes"):
        checkpoints.verify(place)


def test_a_manifest_without_hashes_is_compared_by_size(tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    place = write(tmp_path, 1)
    sizes = {name: len(content) for name, content in contents(place).items() if name != "manifest.json"}
    (place / "manifest.json").write_text(json.dumps({"layout": 1, "files": sizes}))
    model = place / "planner" / "model.safetensors"
    model.write_bytes(b"x" * sizes["planner/model.safetensors"])
    assert (damage(place), checkpoints.has_hashes(place)) == ("", False)
    model.write_bytes(b"x")
    assert (
        damage(place)
        == f"planner/model.safetensors has 1 bytes instead of {sizes['planner/model.safetensors']}"
    )


def test_a_cheap_look_compares_sizes_alone(tmp_path: Path) -> None:
    place = write(tmp_path, 1)
    model = place / "planner" / "model.safetensors"
    model.write_bytes(bytes(model.stat().st_size))
    assert damage(place, contents=False) == ""
    assert checkpoints.read_state(place)["iteration"] == 1
    assert "SHA-256" in damage(place)
    with pytest.raises(CheckpointError, match="SHA-256"):
        checkpoints.verify(place)
