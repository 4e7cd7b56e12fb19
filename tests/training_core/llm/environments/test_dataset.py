"""dataset: lines of a file as tasks; what is wrong with a line is told by its number; rewards of real processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from training_core.config.files import parse_config
from training_core.config.rewards import CustomReward, MathReward
from training_core.errors import ConfigError
from training_core.llm.environments.dataset import (
    Dataset,
    DatasetEnvironment,
    check_held_out,
    split_instances,
    task_instance,
)
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.rewards import pool

FUNCTIONS = "tests.training_core.llm.rewards.reward_functions"


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def sums(folder: Path, count: int = 40) -> Path:
    """A small data set, made here."""
    return write(
        folder, *({"prompt": f"{n} + 1 = ?", "label": str(n + 1), "level": n % 3} for n in range(count))
    )


def section(path: Path | str, **settings: Any) -> Dataset:
    return Dataset(path=str(path), **{"reward": MathReward(processes=1)} | settings)


def test_a_line_is_a_task_and_its_answer_is_judged(tmp_path: Path) -> None:
    environment = DatasetEnvironment(section(sums(tmp_path)), seed=0)
    environment.reset(3, "train")
    question = environment.observe("anybody")[0]["content"]
    assert environment.observe("anybody") == ({"role": "user", "content": question},)
    right = int(question.split()[0]) + 1
    result = environment.copy().act("anybody", f"\\boxed{{{right}}}")
    assert (result.local_reward, result.team_reward, result.success, result.timed_out) == (
        0.0,
        1.0,
        True,
        False,
    )
    result = environment.act("anybody", f"it is {right + 1}")
    assert (result.team_reward, result.done) == (0.0, False), "the turns are counted by those who play"
    assert [line["state"] for line in environment.board()["lines"]] == ["", "bad", ""]


def test_an_answer_without_a_reward_ends_the_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = DatasetEnvironment(section(sums(tmp_path)), seed=0)
    environment.reset(3, "train")
    monkeypatch.setattr(environment._rewards, "score", lambda request: pool.RewardResult(None))
    result = environment.act("anybody", "n/a")
    assert (result.scored, result.team_reward, result.done, result.success) == (False, 0.0, True, False)
    assert (environment.outcome, environment.board()["lines"][1]["state"]) == ("no reward", "")


def test_a_second_try_sees_the_first_and_is_discounted(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2"}],
            "label": 4,
        },
    )
    environment = DatasetEnvironment(
        section(path, eval_path=str(path), max_turns=2, turn_discount=0.9), seed=0
    )
    environment.reset(0, "train")
    environment.act("solver", "#### 5")
    assert [message["role"] for message in environment.observe("solver")] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert environment.observe("solver")[2]["content"] == "#### 5"
    assert environment.copy().act("solver", "#### 4").team_reward == pytest.approx(0.9)
    assert environment.act("another", "#### 4").team_reward == 1.0, "another role's first try"


def test_splits_never_overlap_and_every_line_is_asked_once_a_pass(tmp_path: Path) -> None:
    config = section(sums(tmp_path), eval_share=0.25)
    held = {item.instance_id for item in split_instances(config, "eval")}
    trained = [task_instance(config, 7, number, "train").instance_id for number in range(40 - len(held))]
    assert held and not held & set(trained) and len(set(trained)) == len(trained) == 40 - len(held)
    again = [
        task_instance(config, 7, len(trained) + number, "train").instance_id for number in range(len(trained))
    ]
    assert sorted(again) == sorted(trained) and again != trained, "shuffled anew"
    assert task_instance(config, 7, 0, "eval") == task_instance(config, 8, 0, "eval")


def test_a_file_of_its_own_may_be_held_out(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other", {"prompt": "held out", "answer": 1, "instance_id": "x"})
    config = section(sums(tmp_path), eval_path=str(other))
    assert len(split_instances(config, "train")) == 40
    assert task_instance(config, 0, 5, "eval").data == {"answer": 1, "label": 1, "instance_id": "x"}


def test_relative_paths_are_looked_up_in_the_servers_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    sums(tmp_path / "data")
    assert len(split_instances(section("questions.jsonl", eval_share=0.5), "train")) < 40
    with pytest.raises(ConfigError, match=r"there is no file 'answers.jsonl'; put it into .*/data"):
        split_instances(section("answers.jsonl"), "train")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", "line 2: not JSON .Expecting property name"), ("[1]", "line 2: not a JSON object"),
        ({"question": "?"}, "line 2: no field 'prompt'; there are question"), ({"prompt": 5}, "line 2: 'prompt' is neither"),
        ({"prompt": []}, "line 2: 'prompt' is neither"), ({"prompt": [{"role": "user"}]}, "line 2: message 1 .* no string"),
        ({"prompt": [{"role": "boss", "content": "x"}]}, "line 2: message 1 .* 'role' of system, user"),
        ({"prompt": "?", "instance_id": 1}, "lines 1 and 2 have the same instance_id"),
    ],
)  # fmt: skip
def test_bad_lines_are_told_by_their_number(tmp_path: Path, line: Any, said: str) -> None:
    path = write(tmp_path, {"prompt": "good"}, line)
    with pytest.raises(ConfigError, match=said):
        EnvironmentHost(section(path), seed=0)


def test_an_empty_split_says_what_to_do(tmp_path: Path) -> None:
    whole = section(write(tmp_path, {"prompt": "only one"}))
    with pytest.raises(ConfigError, match=r"no line for the eval split; give environment\.eval_path"):
        check_held_out(whole, 10)
    check_held_out(whole, 0)
    assert DatasetEnvironment(whole, seed=0).draw(3, "train").messages[0]["content"] == "only one"
    with pytest.raises(ConfigError, match="is empty"):
        DatasetEnvironment(section(write(tmp_path)), seed=0)


@pytest.mark.extended
def test_a_hanging_reward_function_affects_only_its_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_STARTUP", 20.0)
    reward = CustomReward(path=f"{FUNCTIONS}:hangs", processes=3, timeout=3.0, retries=0)
    host = EnvironmentHost(section(sums(tmp_path), reward=reward), seed=0)
    host.reset({0: (0, "train"), 1: (1, "train")})
    results = host.try_answers({0: ["a", "hang", "b"], 1: ["c", "d", "hang"]}, "solver")
    rewards = {slot: [result.team_reward for result in found] for slot, found in results.items() if not isinstance(found, str)}  # fmt: skip
    assert rewards == {0: [1.0, 0.0, 1.0], 1: [1.0, 1.0, 0.0]}
    assert [result.timed_out for result in results[0]] == [False, True, False]  # type: ignore[union-attr]


def test_a_reward_function_that_raises_fails_its_episode_and_no_other(tmp_path: Path) -> None:
    reward = CustomReward(path=f"{FUNCTIONS}:crashes", processes=1, retries=0)
    host = EnvironmentHost(section(sums(tmp_path), reward=reward), seed=0)
    host.reset({0: (0, "train"), 1: (1, "train")})
    results = host.try_answers({0: ["crash"], 1: ["fine"]}, "solver")
    assert "its process died" in results[0] and results[1][0].team_reward == 1.0  # type: ignore[operator, union-attr]


def test_any_roles_may_play(tmp_path: Path) -> None:
    tree = {
        "team": {"roles": {"drafter": {"policy": "p"}, "editor": {"policy": "p"}}},
        "policies": {"p": {"model": "some/model"}},
        "environment": {
            "type": "dataset",
            "path": "x.jsonl",
            "reward": {"type": "custom", "path": "mine.rewards:score"},
        },
    }
    assert parse_config(tree).team.order == ("drafter", "editor")
    with pytest.raises(ConfigError) as caught:
        parse_config(
            tree
            | {
                "environment": {
                    "type": "dataset",
                    "path": "x",
                    "reward": {"type": "custom", "path": "no path"},
                }
            }
        )
    assert "environment.reward.path" in caught.value.fields
