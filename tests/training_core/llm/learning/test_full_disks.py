"""Every part of a checkpoint on a full disk: told in words, and nothing half written is taken for whole."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.training_core.llm.learning.test_learner import groups
from tests.training_core.llm.learning.test_policy_checkpoint import fresh
from tests.training_core.llm.models.test_lora import lora
from tests.training_core.llm.toys import TOKENIZER, make_model
from tests.training_core.marl.hints import config
from tests.training_core.marl.test_trainer import trained
from tests.training_core.power_cuts import contents, flipped, half_written, lay_down, reordered
from training_core.checkpoints import damage, latest, name_of, sweep, writing
from training_core.errors import CheckpointError
from training_core.llm.external.source import read_external, save_external
from training_core.llm.learning.policy_checkpoint import load_policy, policy_folder, save_frozen, save_policy
from training_core.llm.learning.training_groups import save_baselines
from training_core.llm.models.lora import add_adapter

Save = Callable[[Path], None]
OUTSIDE = {"finished": ["a", "b"], "delivery": 7}


def whole_model(folder: Path) -> None:
    """A language model with its optimiser, and what stands beside policies."""
    learner = fresh()
    learner.update(groups(), 1, 0)
    save_policy(policy_folder(folder, "planner"), learner, TOKENIZER, 1)
    save_external(folder, OUTSIDE)
    save_baselines(folder, {"planner": 0.5})


def adapter(folder: Path) -> None:
    """An adapter alone, of a policy that is not trained."""
    model = make_model()
    add_adapter(model, lora(), 1)
    save_frozen(policy_folder(folder, "planner"), model, TOKENIZER, 1)


def networks(folder: Path) -> None:
    """Small networks."""
    trained(config(), 1)[0].save(folder)


SAVERS: dict[str, Save] = {"language model": whole_model, "adapter": adapter, "small networks": networks}


@pytest.fixture(params=["small file system", "file size limit"])
def limited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Save, int], str]]:
    """Writes a checkpoint where only so many KiB fit; what the error says, or nothing where all of it fitted."""
    if request.param == "file size limit":
        yield lambda save, size: _in_child(tmp_path, save, size)
        return
    place = tmp_path / "small"
    place.mkdir()

    def on_small_disk(save: Save, size: int) -> str:
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
        if subprocess.run(mounting, check=False, capture_output=True).returncode:
            pytest.skip("only root mounts file systems")
        try:
            return _said(place, save)
        finally:
            subprocess.run(["umount", str(place)], check=True)

    yield on_small_disk


def _said(folder: Path, save: Save) -> str:
    try:
        with writing(folder, 1, {}) as draft:
            save(draft)
    except CheckpointError as error:
        assert not list(folder.iterdir()), "no draft is left"
        return str(error)
    assert damage(folder / name_of(1)) == ""
    return ""


def _in_child(folder: Path, save: Save, size: int) -> str:
    """The limit cannot be taken back, so a child process has it."""
    reading, writing = os.pipe()
    if os.fork() == 0:  # pragma: no cover
        resource.setrlimit(resource.RLIMIT_FSIZE, (size * 1024, size * 1024))
        try:
            said = _said(folder, save)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as words:
        said = words.read()
    os.wait()
    return said


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
def test_a_full_disk_is_told_in_words(kind: str, limited: Callable[[Save, int], str]) -> None:
    said = [limited(SAVERS[kind], size) for size in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 4096)]
    assert said[-1] == "", "with room it is written"
    short = [each for each in said if each]
    assert len(short) >= 3
    for each in short:
        assert each.startswith("cannot write the checkpoint "), each
        assert each.endswith("is the disk full?"), each
        assert "(os error" in each or "[Errno" in each


@pytest.mark.parametrize("kind", SAVERS)
def test_cut_and_flipped_files_of_real_checkpoints_are_found_out(kind: str, tmp_path: Path) -> None:
    for iteration in (1, 2):
        with writing(tmp_path, iteration, {}) as draft:
            SAVERS[kind](draft)
    before, last = tmp_path / name_of(1), tmp_path / name_of(2)
    files = contents(last)
    for state in half_written(files, every=False):
        lay_down(last, state)
        assert damage(last)
    for states in (reordered, flipped):
        for state in states(files, every=False):
            name = next(each for each in files if state.get(each) != files[each])
            if name in state:
                (last / name).parent.mkdir(parents=True, exist_ok=True)
                (last / name).write_bytes(state[name])
            else:
                (last / name).unlink()
            assert damage(last), f"{name} differs"
            lay_down(last, files) if states is reordered else (last / name).write_bytes(files[name])
    (last / "state.json").write_bytes(b"{}")
    sweep(tmp_path)
    assert latest(tmp_path) == before
    assert contents(before).keys() == files.keys()


def test_what_was_found_whole_is_loaded(tmp_path: Path) -> None:
    with writing(tmp_path, 1, {}) as draft:
        whole_model(draft)
    place = latest(tmp_path)
    assert place is not None
    assert load_policy(policy_folder(place, "planner"), fresh()) == 1
    assert read_external(place) == OUTSIDE


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_damaged_rollout_state_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "rollout_buffer.json").write_text(text)
    with pytest.raises(CheckpointError, match="does not fit a rollout buffer's run, or is damaged"):
        read_external(tmp_path)
