"""Short jobs on a little model: what they play is checked against the coordinator that a run uses."""

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import small_config
from training_core.checkpoints import name_of, writing
from training_core.config.files import load_config, to_toml
from training_core.errors import ConfigError
from workers.driver.attempt import run_attempt
from workers.job import main
from workers.jobs import talk as talking
from workers.jobs.context import wilson
from workers.jobs.language_models import swapped
from workers.protocol import Attempt
from workers.storage.folders import JobFolder


@pytest.fixture(scope="module")
def trained(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder with checkpoints of two iterations."""
    folder = tmp_path_factory.mktemp("trained")
    config = small_config(little_model, run__iterations=2)
    assert run_attempt(Attempt(config, "r", 1, folder, folder.parent), local=True) == 0
    return folder


def do(
    folder: Path,
    model: Path,
    kind: str,
    checkpoint: Path | str = "",
    other: Path | str = "",
    /,
    **parameters: Any,
) -> tuple[int, JobFolder]:
    job = JobFolder(folder)
    job.open(
        to_toml(small_config(model)),
        {"kind": kind, "parameters": parameters, "checkpoint": str(checkpoint), "other": str(other)},
    )
    return main([str(folder), "--home", str(folder.parent)]), job


def latest(trained: Path) -> Path:
    return sorted((trained / "checkpoints").iterdir())[-1]


def test_a_dry_run_plays_a_training_episode_with_its_candidates(tmp_path: Path, little_model: Path) -> None:
    status, job = do(tmp_path / "j", little_model, "dry_run", episodes=2)
    episodes = job.kept()
    result = job.read("result") or {}
    assert status == 0 and len(episodes) == 2 and {each["kind"] for each in episodes} == {"train"}
    group = small_config(little_model).rollout.group_size
    assert {len(turn["candidates"]) for each in episodes for turn in each["turns"]} == {group}
    assert result["return"] == pytest.approx(sum(each["episode_return"] for each in episodes) / 2)
    assert (job.read("progress") or {})["done"] >= 0.5
    assert result["unused"] == []


def test_a_dry_run_reports_an_algorithm_that_cannot_be_loaded(tmp_path: Path, little_model: Path) -> None:
    config = small_config(little_model, algorithm={"type": "custom", "path": "nowhere:Steps"})
    job = JobFolder(tmp_path / "j")
    job.open(to_toml(config), {"kind": "dry_run", "parameters": {}, "checkpoint": "", "other": ""})
    assert main([str(tmp_path / "j"), "--home", str(tmp_path)]) != 0
    assert "algorithm.path: nowhere:Steps: there is no module" in json.dumps(job.read("error"))


def test_a_checkpoints_evaluation_gives_the_runs_own_results(
    tmp_path: Path, little_model: Path, trained: Path
) -> None:
    config = small_config(little_model)
    status, job = do(
        tmp_path / "j", little_model, "evaluate", latest(trained), episodes=config.evaluation.episodes
    )
    spool = [json.loads(line) for path in trained.rglob("*.jsonl") for line in path.read_text().splitlines()]
    said = [
        event["values"] for event in spool if event["type"] == "metrics" and "eval/return" in event["values"]
    ]
    result = job.read("result") or {}
    assert status == 0 and len(job.kept()) == config.evaluation.episodes
    assert result["return"] == pytest.approx(said[-1]["eval/return"])
    assert result["success"] == pytest.approx(said[-1]["eval/success"])
    won, played = sum(each["success"] for each in job.kept()), config.evaluation.episodes
    assert result["success_interval"] == pytest.approx(list(wilson(won, played)))


def test_an_evaluation_can_start_at_a_later_task(tmp_path: Path, little_model: Path, trained: Path) -> None:
    _, all_ = do(tmp_path / "a", little_model, "evaluate", latest(trained), episodes=4)
    _, late = do(tmp_path / "b", little_model, "evaluate", latest(trained), episodes=2, first=2)
    assert [each["task"] for each in late.kept()] == [each["task"] for each in all_.kept()][2:]


def test_swapped_policies_play_each_others_roles(tmp_path: Path, little_model: Path, trained: Path) -> None:
    """The same figures as of a checkpoint whose folders were exchanged by hand."""
    with writing(tmp_path / "exchanged", 1, {}) as draft:
        shutil.copytree(latest(trained) / "planner", draft / "executor")
        shutil.copytree(latest(trained) / "executor", draft / "planner")
    exchanged = tmp_path / "exchanged" / name_of(1)
    status, job = do(tmp_path / "j", little_model, "evaluate", latest(trained), episodes=8, swapped=True)
    _, by_hand = do(tmp_path / "hand", little_model, "evaluate", exchanged, episodes=8)
    result, wanted = job.read("result") or {}, by_hand.read("result") or {}
    assert status == 0
    assert result["seats"] == {"planner": "executor", "executor": "planner"}
    assert result["return"] == pytest.approx(wanted["return"]) and result["success"] == wanted["success"]
    said = [
        [[turn["candidates"][0]["text"] for turn in each["turns"]] for each in folder.kept()]
        for folder in (job, by_hand)
    ]
    assert said[0] == said[1]
    assert {(turn["role"], turn["policy"]) for turn in job.kept()[0]["turns"]} == {
        ("planner", "executor"),
        ("executor", "planner"),
    }


def test_each_of_three_roles_gets_the_policy_of_the_next() -> None:
    config = swapped(load_config("plan_path_trio"))
    assert [role.policy for role in config.team.roles.values()] == ["scout", "executor", "planner"]
    shared = load_config("plan_path_trio", {"team.roles.scout.policy": "planner"})
    assert [role.policy for role in swapped(shared).team.roles.values()] == [
        "executor",
        "executor",
        "planner",
    ]
    alone = load_config("plan_path_duo", {"team.roles.executor.policy": "planner"})
    with pytest.raises(ConfigError, match="there is none to swap it with"):
        swapped(alone)


def test_a_match_plays_every_assignment_of_checkpoints(
    tmp_path: Path, little_model: Path, trained: Path
) -> None:
    first, last = sorted((trained / "checkpoints").iterdir())[0], latest(trained)
    status, job = do(tmp_path / "j", little_model, "match", first, last, episodes=2, kind="eval")
    lines = (job.read("result") or {})["seatings"]
    _, alone = do(tmp_path / "alone", little_model, "evaluate", last, episodes=2)
    assert status == 0
    assert [tuple(line["seats"].values()) for line in lines] == [
        ("a", "a"), ("b", "b"), ("a", "b"), ("b", "a"),
    ]  # fmt: skip
    assert lines[1]["return"] == pytest.approx((alone.read("result") or {})["return"])


def test_a_person_takes_a_role(tmp_path: Path, little_model: Path, trained: Path) -> None:
    config = small_config(little_model)
    roles = list(config.team.roles)
    folder = JobFolder(tmp_path / "j")
    heard: list[dict[str, Any]] = []

    def speak() -> None:
        turn = 0
        while folder.read("result") is None and folder.read("error") is None:
            asked = (folder.read("moment") or {}).get("asked")
            if asked and asked["turn"] == turn:
                heard.append(asked)
                folder.say(turn, "<b>nothing of use</b>")
                turn += 1
            time.sleep(0.01)

    person = threading.Thread(target=speak)
    person.start()
    status, job = do(folder.root, little_model, "talk", latest(trained), roles=[roles[0]])
    person.join()
    (episode,) = job.kept()
    said = [turn for turn in episode["turns"] if turn["role"] == roles[0]]
    assert status == 0 and heard and {each["role"] for each in heard} == {roles[0]}
    assert {turn["candidates"][0]["text"] for turn in said} == {"<b>nothing of use</b>"}
    moment = job.read("moment") or {}
    assert [move["board"] for move in moment["moves"]] == [turn["board"] for turn in episode["turns"]]
    assert moment["board"] == episode["final_board"] and moment["board"]["kind"] == "grid"
    assert heard[0]["board"] == next(turn["board"] for turn in said)


def test_a_conversation_ends_without_an_answer(
    tmp_path: Path, little_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talking, "ANSWER_SECONDS", 0.0)
    role = next(iter(small_config(little_model).team.roles))
    status, job = do(tmp_path / "j", little_model, "talk", roles=[role])
    assert status == 1 and "No answer was sent" in (job.read("error") or {})["reason"]


def test_a_person_talks_to_base_models_named_in_the_home(
    tmp_path: Path, little_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talking, "ANSWER_SECONDS", 0.0)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "little").symlink_to(little_model)
    status, job = do(tmp_path / "j", Path("little"), "talk", roles=["planner"])
    assert status == 1 and "No answer was sent" in (job.read("error") or {})["reason"]


def test_a_checkpoint_of_another_team_is_refused(tmp_path: Path, little_model: Path) -> None:
    with writing(tmp_path, 1, {}) as draft:
        (draft / "judge").mkdir()
    status, job = do(tmp_path / "j", little_model, "evaluate", tmp_path / name_of(1))
    assert status == 1 and "another team" in (job.read("error") or {})["reason"]


def test_a_folder_without_a_request_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--home", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_preparation_lists_the_base_models(little_model: Path, tmp_path: Path) -> None:
    status, job = do(tmp_path / "job", little_model, "prepare")
    (prepared,) = (job.read("result") or {})["models"]
    assert status == 0 and prepared["name"] == str(little_model) and prepared["vocabulary"] > 0
