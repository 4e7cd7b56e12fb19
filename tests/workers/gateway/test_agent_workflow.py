"""Runs whose episodes are played by agents through the gateway: in the run's process, and from outside."""

import json
import os
import signal
import stat
import threading
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.workers.gateway.agents import Player
from tests.workers.running import conversation, curve, events, small_config
from training_core.config.files import load_config
from training_core.llm.environments.plan_path.game import PlanPath
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt

HERE = "tests.workers.gateway.agents"


def attempt(folder: Path, model: Path, **overrides: Any) -> Attempt:
    """A small run of the workflow `agent`."""
    config = small_config(model, **{"workflow.type": "agent"} | overrides)
    return Attempt(config, "r", 1, folder, folder.parent)


@pytest.fixture(scope="module")
def learnt(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learnt")
    overrides = {"workflow.path": f"{HERE}:Upwards", "run.iterations": 14, "evaluation.every": 14}
    assert run_attempt(attempt(folder, little_model, **overrides, **LEARNS), local=True) == 0
    return folder


LEARNS = {
    "rollout.tasks": 6,
    "rollout.group_size": 8,
    "resources.environments_per_worker": 24,
    "checkpoint.every": 0,
}


@pytest.mark.slow
def test_an_agent_learns_through_the_gateway(learnt: Path) -> None:
    """Both roles learn that going up pays."""
    values = curve(learnt)
    returns = [values["train/return", step] for step in range(1, 15)]
    first, last = sum(returns[:3]) / 3, sum(returns[-3:]) / 3
    assert last > first + 0.5, returns
    assert values["eval/return", 14] > values["eval/return", 0] + 0.5
    assert all(values["eval/failed", step] == 0 for step in (0, 14))


def test_agents_episodes_have_all_facts(learnt: Path) -> None:
    """Groups by role, transcripts with turns and token texts, stages, advantages: as in any other workflow."""
    values = curve(learnt)
    assert {name for name, _ in values if name.startswith("groups/")} >= {
        "groups/planner/zero_variance",
        "groups/executor/zero_variance",
    }
    kept = [event for event in events(learnt, "episode") if event["kind"] == "train"]
    assert kept
    for event in kept:
        assert [turn["role"] for turn in event["turns"]] == ["planner", "executor"]
        said = " ".join(turn["candidates"][0]["text"] for turn in event["turns"]).split()
        reward = (said.count("north") + said.count("up")) / 8
        assert event["rewards"] == {"planner": reward, "executor": reward}
        for turn in event["turns"]:
            (candidate,) = turn["candidates"]
            assert len(candidate["logprobs"]) == len(candidate["tokens"]) > 0
    noted = {event["episode"]: event for event in events(learnt, "episode_annotation")}
    assert any(turn["advantages"] != [0.0] for event in noted.values() for turn in event["turns"])
    batches = [event["episodes"] for event in events(learnt, "batch")]
    assert all(len(batch) == 48 for batch in batches)
    assert [stage["kind"] for stage in batches[0][0]["stages"]][-1] == "generate"
    facts = [event["facts"] for event in events(learnt, "status") if event["state"] == "running"]
    assert facts[0]["gateway"].startswith("http://127.0.0.1:")


def test_an_environment_may_play_its_tasks_itself(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlanPath, "player", f"{HERE}:Player")
    assert (
        run_attempt(
            attempt(tmp_path, little_model, **{"run.iterations": 1, "evaluation.every": 1}), local=True
        )
        == 0
    )
    rewards = [event["rewards"] for event in events(tmp_path, "episode")]
    assert rewards and all(10.0 <= reward["planner"] == reward["executor"] <= 12.0 for reward in rewards)
    begins = [served for served in Player.served if served[0] == "begin"]
    assert set(begins) == {("begin", "planner", "executor")} and len(Player.served) == 2 * len(begins)


@pytest.mark.extended
def test_the_same_seed_gives_the_same_curve(little_model: Path, tmp_path: Path) -> None:
    """Though agents run at once and their calls arrive in any order."""
    curves = []
    for name, concurrency in (("a", 1), ("b", 64)):
        overrides = {
            "workflow.path": f"{HERE}:Upwards",
            "workflow.concurrency": concurrency,
            "evaluation.every": 0,
        }
        assert run_attempt(attempt(tmp_path / name, little_model, **overrides), local=True) == 0
        curves.append(curve(tmp_path / name))
    assert conversation(tmp_path / "a") == conversation(tmp_path / "b")
    assert curves[0] == pytest.approx(curves[1], rel=1e-3, abs=1e-5), (
        "but for how sums round in batches of other sizes"
    )


@pytest.mark.slow
def test_turns_of_one_conversation_are_one_sequence(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{HERE}:Twice", "run.iterations": 1, "evaluation.every": 0}
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    kept = events(tmp_path, "episode")
    learnt = {
        event["episode"]: turn for event in events(tmp_path, "episode_annotation") for turn in event["turns"]
    }
    assert kept and any("ratios" in turn for turn in learnt.values())
    for event in kept:
        (turn,) = event["turns"]
        answer = turn["candidates"][0]
        mask = [version >= 0 for version in answer["versions"]]
        assert False in mask and mask[0] and mask[-1]
        said = [text for text, sampled in zip(answer["tokens"], mask, strict=True) if sampled]
        assert event["episode_return"] == said.count("east") / 2
        note = learnt[event["episode"]]
        trained = "ratios" in note
        assert note["masks"] == [[int(sampled and trained) for sampled in mask]]
        assert trained or note["advantages"] == [0.0], "only groups with equal rewards are left out"


@pytest.mark.extended
def test_bad_calls_end_neither_episode_nor_run(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{HERE}:Clumsy", "evaluation.every": 0}
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    values = curve(tmp_path)
    assert values["rollout/failed", 1] == values["rollout/failed", 2] == 0
    assert values["policy/planner/grad_norm", 2] > 0
    assert events(tmp_path, "status")[-1]["state"] == "finished"


def test_each_call_of_an_agent_learns_from_its_own_return(little_model: Path, tmp_path: Path) -> None:
    """Advantages as reported, against a naive loop over what the calls earned."""
    overrides = {"workflow.path": f"{HERE}:Twice", "run.iterations": 1, "evaluation.every": 0}
    overrides |= {
        "workflow.export_style": "individual",
        "workflow.turn_discount": 0.5,
        "algorithm.std_level": "none",
    }
    overrides |= {
        "reporting.episodes_per_iteration": 24,
        "algorithm.team_weight": 1.0,
        "algorithm.local_weight": 1.0,
    }
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    earned: dict[str, list[list[float]]] = {}
    names: dict[str, list[str]] = {}
    for event in events(tmp_path, "episode"):
        rewards = [turn["candidates"][0]["text"].split().count("east") / 2 for turn in event["turns"]]
        assert [turn["candidates"][0]["reward"] for turn in event["turns"]] == rewards and len(rewards) == 2
        assert all(version >= 0 for turn in event["turns"] for version in turn["candidates"][0]["versions"])
        assert event["episode_return"] == sum(rewards)
        earned.setdefault(event["task"], []).append([rewards[0] + 0.5 * rewards[1], rewards[1]])
        names.setdefault(event["task"], []).append(event["episode"])
    told = {event["episode"]: event for event in events(tmp_path, "episode_annotation")}
    seen = set()
    for task, returns in earned.items():
        assert len(returns) == 4
        for episode, mine in zip(names[task], returns, strict=True):
            for place, turn in enumerate(told[episode]["turns"]):
                mean = sum(each[place] for each in returns) / 4
                assert turn["advantages"] == [pytest.approx(mine[place] - mean, abs=1e-6)]
                seen.add(round(mine[place] - mean, 6))
    assert len(seen) > 2


@pytest.mark.extended
def test_answers_near_their_limit_cost_an_agents_episode_reward(little_model: Path, tmp_path: Path) -> None:
    once = {"workflow.path": f"{HERE}:Twice", "run.iterations": 1, "evaluation.every": 0}
    soft = {"algorithm.overlong_tokens": 6, "algorithm.overlong_penalty": 3.0}
    for name, extra in (("plain", {}), ("soft", soft)):
        assert run_attempt(attempt(tmp_path / name, little_model, **once, **extra), local=True) == 0
    costs = []
    for before, after in zip(
        events(tmp_path / "plain", "episode"), events(tmp_path / "soft", "episode"), strict=True
    ):
        (answer,) = before["turns"][0]["candidates"]
        learnt = [version >= 0 for version in answer["versions"]]
        lengths = [len(list(stretch)) for mine, stretch in groupby(learnt) if mine]
        costs.append(sum(3.0 * min(max(length - 2, 0) / 6, 1.0) for length in lengths))
        assert len(lengths) == 2, "two calls, one sequence"
        assert before["episode_return"] - after["episode_return"] == pytest.approx(costs[-1])
    assert max(costs) > 0


@pytest.mark.extended
def test_agents_that_fail_are_failed_episodes(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{HERE}:Moody", "workflow.timeout": 3.0, "run.iterations": 1}
    overrides |= {"rollout.tasks": 4, "evaluation.every": 0, "reporting.episodes_per_iteration": 16}
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == FAILED
    assert "All 16 episodes of training failed" in events(tmp_path, "status")[-1]["message"]
    errors = {event["task"]: event["error"] for event in events(tmp_path, "episode")}
    assert list(errors.values()) == [
        "the episode took longer than workflow.timeout = 3 seconds",
        "ValueError: an odd task",
        "the agent ended without a reward",
        "ValueError: an odd task",
    ]
    assert curve(tmp_path)["rollout/failed", 1] == 16


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{HERE}:Nobody", "has no 'Nobody'"),
        ("no.such:Agent", "there is no module"),
        (f"{HERE}:Greeter", "no method run"),
    ],
)
def test_a_missing_agent_class_ends_the_run_before_models_are_loaded(
    tmp_path: Path, path: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    no_model = tmp_path / "no_model"
    assert run_attempt(attempt(tmp_path, no_model, **{"workflow.path": path}), local=True) == FAILED
    assert message in events(tmp_path, "status")[-1]["message"]
    assert "Traceback" not in caplog.text


def test_agents_get_the_lines_of_a_data_file(little_model: Path, tmp_path: Path) -> None:
    lines = [{"prompt": f"goal {word}", "answer": word} for word in ("north", "south", "west", "east") * 3]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    config = load_config(
        "plan_path_duo",
        {
            "environment.type": "dataset",
            "environment.path": str(file),
            "environment.eval_share": 0.4,
            "team.roles": {"solver": {"policy": "planner"}},
            "policies": {"planner": {"model": str(little_model)}},
            "workflow.type": "agent",
            "workflow.path": f"{HERE}:Reader",
            "rollout.tasks": 4,
            "run.iterations": 1,
            "evaluation.every": 0,
            "reporting.episodes_per_iteration": 32,
        },
    )
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    kept = events(tmp_path / "run", "episode")
    assert len(kept) == 4 * config.rollout.group_size
    for event in kept:
        (turn,) = event["turns"]
        (asked,) = turn["messages"]
        word = asked["content"].removeprefix("goal ")
        assert event["episode_return"] == float(word in turn["candidates"][0]["text"].split())


def outside(folder: Path, stop: threading.Event, played: list[dict[str, Any]]) -> None:
    """A program that knows the run's folder alone: takes episodes, plays them by OpenAI's client, closes them."""
    while not (folder / "gateway.json").exists():
        if stop.wait(0.05):
            return
    known = json.loads((folder / "gateway.json").read_text())
    assert stat.S_IMODE((folder / "gateway.json").stat().st_mode) == 0o600
    head = {"Authorization": f"Bearer {known['token']}"}
    with httpx.Client(timeout=60, trust_env=False) as http:
        while not stop.is_set():
            try:
                answer = http.post(f"{known['url']}/episodes", headers=head)
            except httpx.HTTPError:
                return
            if answer.status_code == 409:
                stop.wait(float(answer.headers["Retry-After"]) / 20)
                continue
            assert answer.status_code == 201
            spec = answer.json()
            agent = OpenAI(base_url=spec["base_url"], api_key=spec["key"], max_retries=0)
            made = agent.chat.completions.create(model="planner", messages=spec["data"]["messages"])
            reward = (made.choices[0].message.content or "").split().count("north")
            shown = http.get(spec["url"]).json()
            assert shown["calls"][0]["answers"][0]["text"] == made.choices[0].message.content
            assert http.post(f"{spec['url']}/close", json={"reward": reward}).status_code == 200
            played.append(spec)


@pytest.mark.extended
def test_external_agents_take_play_and_close_episodes(little_model: Path, tmp_path: Path) -> None:
    stop, played = threading.Event(), []  # type: ignore[var-annotated]
    program = threading.Thread(target=outside, args=(tmp_path, stop, played))
    program.start()
    try:
        overrides = {
            "evaluation.episodes": 3,
            "evaluation.probes": 1,
            "rollout.group_size": 2,
            "rollout.tasks": 4,
        }
        assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    finally:
        stop.set()
        program.join()
    assert len(played) == 2 * 4 * 2 + 3 * 2 * 3, (
        "two iterations, and greedy and sampled evaluations of 0, 1 and 2"
    )
    assert not (tmp_path / "gateway.json").exists(), "it goes with the run"
    assert {spec["data"]["split"] for spec in played} == {"train", "eval"}
    values = curve(tmp_path)
    assert values["rollout/failed", 1] == 0


@pytest.mark.extended
def test_taking_an_episode_requires_the_token(little_model: Path, tmp_path: Path) -> None:
    """And a run that waits for agents in vain says so."""
    seen: list[httpx.Response] = []

    def stranger() -> None:
        while not (tmp_path / "gateway.json").exists():
            time.sleep(0.02)
        url = json.loads((tmp_path / "gateway.json").read_text())["url"]
        seen.append(
            httpx.post(
                f"{url}/episodes", headers={"Authorization": "Bearer guess"}, timeout=60, trust_env=False
            )
        )
        seen.append(httpx.get(f"{url}/health", timeout=60, trust_env=False))

    program = threading.Thread(target=stranger)
    program.start()
    assert run_attempt(attempt(tmp_path, little_model, **{"workflow.patience": 6.0}), local=True) == FAILED
    program.join()
    assert [answer.status_code for answer in seen] == [401, 200]
    assert not (tmp_path / "gateway.json").exists()
    assert "No agent accepted an episode" in events(tmp_path, "status")[-1]["message"]


AHEAD = {
    "policies.planner.devices.placement": "apart",
    "policies.executor.devices.placement": "apart",
    "rollout.staleness": 1,
}


def hold_one_and_stop(folder: Path, taken: list[dict[str, Any]]) -> None:
    """A program that takes an episode and never closes it. Once the run tells that it waits for agents, it is asked to stop."""
    while not (folder / "gateway.json").exists():
        time.sleep(0.02)
    known = json.loads((folder / "gateway.json").read_text())
    head = {"Authorization": f"Bearer {known['token']}"}
    while not taken:
        answer = httpx.post(f"{known['url']}/episodes", headers=head, timeout=60, trust_env=False)
        taken += [answer.json()] if answer.status_code == 201 else []
    while not any(event["message"].startswith("waits for agents") for event in events(folder, "status")):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("overrides", "local"),
    [
        pytest.param({}, True, id="local"),
        pytest.param(AHEAD, True, id="asynchronous", marks=pytest.mark.extended),
        pytest.param({}, False, id="ray", marks=[pytest.mark.extended, pytest.mark.ray]),
    ],
)
def test_a_stop_ends_the_wait_for_agents(
    overrides: dict[str, Any],
    local: bool,
    request: pytest.FixtureRequest,
    little_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run tells what it waits for; a stop cancels its open episodes, of which one is being played and others were never
    taken, and does not wait for workflow.patience.
    """
    if local:
        monkeypatch.setattr("training_core.llm.workflows.agent._TOLD_SECONDS", 0.0)
    else:
        request.getfixturevalue("ray_cluster")
    taken: list[dict[str, Any]] = []
    program = threading.Thread(target=hold_one_and_stop, args=(tmp_path, taken))
    program.start()
    waits = {"evaluation.every": 0, "workflow.patience": 0.0, "workflow.timeout": 3600.0}
    assert run_attempt(attempt(tmp_path, little_model, **waits | overrides), local=local) == 0
    program.join()
    last = events(tmp_path, "status")[-1]
    assert (last["state"], last["iteration"]) == ("stopped", 0)
    assert taken and not (tmp_path / "gateway.json").exists()


@pytest.mark.extended
def test_agents_continue_to_play_during_updates(little_model: Path, tmp_path: Path) -> None:
    """With staleness allowed, weights change under open episodes; every token says which spoke."""
    overrides = {
        "workflow.path": f"{HERE}:Upwards",
        "policies.planner.devices.placement": "apart",
        "policies.executor.devices.placement": "apart",
        "rollout.staleness": 2,
        "rollout.max_concurrent": 12,
        "algorithm.correction": "decoupled",
        "resources.environments_per_worker": 24,
        "run.iterations": 5,
        "evaluation.every": 0,
        "reporting.episodes_per_iteration": 24,
    }
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    kept = [event for event in events(tmp_path, "episode") if not event["failed"]]
    assert len(kept) == 5 * 24
    spoke = {
        (event["iteration"], version)
        for event in kept
        for turn in event["turns"]
        for version in turn["candidates"][0]["versions"]
    }
    assert {iteration for iteration, _ in spoke} == {1, 2, 3, 4, 5}
    assert all(iteration - 1 - 2 <= version <= iteration - 1 for iteration, version in spoke)
    assert any(version < iteration - 1 for iteration, version in spoke)


@pytest.mark.extended
@pytest.mark.ray
def test_the_gateway_runs_in_ray_too(ray_cluster: None, little_model: Path, tmp_path: Path) -> None:
    """In the coordinator's actor; the driver says where, and agents outside find it."""
    stop, played = threading.Event(), []  # type: ignore[var-annotated]
    program = threading.Thread(target=outside, args=(tmp_path, stop, played))
    program.start()
    try:
        overrides = {"evaluation.every": 0, "rollout.group_size": 2, "rollout.tasks": 4, "run.iterations": 2}
        assert run_attempt(attempt(tmp_path, little_model, **overrides), local=False) == 0
    finally:
        stop.set()
        program.join()
    assert len(played) == 2 * 4 * 2 and not (tmp_path / "gateway.json").exists()
    assert curve(tmp_path)["rollout/failed", 2] == 0
