"""A run learns from rollouts of another process: the service, its generator's processes and the trainer are all real."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.training_core.llm.toys import SMALL, TOKENIZER, naive_logprobs
from tests.workers.rollout_buffer.serving import Service
from tests.workers.running import curve, events, stopped_when
from training_core.config.files import parse_config
from training_core.config.run import RunConfig
from training_core.llm.models.loading import load_model
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

PLUGINS = Path(__file__).with_name("plugins")
PROMPTS = [f"w{number}" for number in range(10, 14)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained: every word is about as likely as any other."""
    import torch

    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    home = tmp_path / "home"
    monkeypatch.setenv("TROUPE_HOME", str(home))
    (home / "data").mkdir(parents=True)
    lines = [
        {"instance_id": f"i{place}", "prompt": [{"role": "user", "content": word}], "label": f"w{place}"}
        for place, word in enumerate(PROMPTS)
    ]
    (home / "data" / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    running = Service(home, "--generators", str(PLUGINS)).start()
    yield running
    running.stop()


def config(model: Path, **overrides: Any) -> RunConfig:
    tree: dict[str, Any] = {
        "run": {"iterations": 20},
        "team": {"roles": {"agent": {"policy": "agent", "sampling": {"max_tokens": 2}}}},
        "policies": {"agent": {"model": str(model), "learner": {"learning_rate": 0.01, "final_learning_rate": 0.001, "epochs": 4}}},
        "environment": {"type": "external"},
        "workflow": {
            "type": "rollout_buffer", "generator": "guess", "input_file": "prompts.jsonl", "epochs": 100,
            "processes": 2, "poll_interval": 0.02, "retry_interval": 0.05,
        },
        "algorithm": {"type": "at_grpo"},
        "rollout": {"tasks": 4, "group_size": 8},
        "evaluation": {"every": 0},
        "checkpoint": {"every": 3},
    }  # fmt: skip
    for path, value in overrides.items():
        section, name = path.split("__")
        tree.setdefault(section, {})[name] = value
    return parse_config(tree)


def right_logprobs(model: Path) -> list[float]:
    """Of the right word after each question."""
    loaded = load_model(model)
    found = []
    for place, word in enumerate(PROMPTS):
        messages = [{"role": "user", "content": word}]
        prompt: Any = TOKENIZER.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
        answer = TOKENIZER(f"w{place}", add_special_tokens=False)["input_ids"]
        found += naive_logprobs(loaded, list(prompt["input_ids"]), answer)
    return found


@pytest.mark.slow
def test_a_run_learns_from_external_rollouts(model: Path, service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    told = config(
        model, algorithm__mean_level="none", algorithm__std_level="none"
    )  # right guesses alone teach
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    after = right_logprobs(folder / "checkpoints" / "iteration-000020" / "agent")
    assert max(right_logprobs(model)) < -2.5, "before, one word of 30"
    assert min(after) > -0.7, "after, every right word is the likeliest"

    values = curve(folder)
    for iteration in range(1, 21):
        assert values["policy/agent/mismatch_max", iteration] == 0.0, (
            "the learner's own logprobs are the sampler's"
        )
        assert values["buffer/num_groups", iteration] >= 1
    assert values["buffer/groups_finished", 20] >= 80
    assert 0.1 < values["train/return", 1] < 0.45, "raw rewards: one guess in four is right"
    assert ("groups/agent/zero_variance", 1) in values


@pytest.mark.extended
def test_transcripts_have_text_mask_and_facts_of_records(
    model: Path, service: Service, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert run_attempt(Attempt(config(model, run__iterations=1), "r", 1, folder, tmp_path), local=True) == 0
    episode = events(folder, "episode")[0]
    (turn,) = episode["turns"]
    (said,) = turn["candidates"]
    assert turn["messages"] == [{"role": "user", "content": episode["title"]}]
    assert TOKENIZER.decode(turn["prompt_ids"]) == f"<user> {episode['title']} <assistant>"
    assert said["tokens"] == [said["text"], "<eos>"]
    facts = {line["label"]: line["text"] for line in episode["final_board"]["lines"]}
    assert facts["label"] == f"w{PROMPTS.index(episode['title'])}"
    assert episode["success"] == (said["text"] == facts["label"]) == (said["reward"] == 1.0)
    annotation = next(
        event for event in events(folder, "episode_annotation") if event["episode"] == episode["episode"]
    )
    expected = naive_logprobs(load_model(model), turn["prompt_ids"], said["token_ids"])
    known = annotation["turns"][0].get("training_logprobs")
    assert known is None or known[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.extended
def test_a_resumed_run_skips_trained_prompts(model: Path, service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    told = config(
        model, run__iterations=6, workflow__epochs=6
    )  # exactly as many groups as six iterations take
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    middle = folder / "checkpoints" / "iteration-000003"
    kept = json.loads((middle / "rollout_buffer.json").read_text())
    assert len(kept["finished"]) == 12
    assert run_attempt(Attempt(told, "r", 2, folder, tmp_path, middle), local=True) == 0
    with service.client() as client:
        stats = client.get("/stats").json()["data"]
    # The first attempt took 24 groups. The second resumed from 12 and got the unacknowledged ones of those 24 again,
    # some of the last four; the others were generated again, every record of them, and no additional ones.
    assert stats["total_written"] == stats["total_read"] == 8 * stats["groups_finished"]
    assert 32 <= stats["groups_finished"] <= 35
    assert stats["open_groups"] == stats["ready_groups"] == 0
    done = json.loads((folder / "checkpoints" / "iteration-000006" / "rollout_buffer.json").read_text())
    assert sorted(done["finished"]) == sorted(f"i{place}" for place in range(4) for _ in range(6))


@pytest.mark.extended
def test_the_generator_plays_evaluations_too(model: Path, service: Service, tmp_path: Path) -> None:
    told = config(
        model, run__iterations=1, workflow__evaluation_file="prompts.jsonl", evaluation__every=1, evaluation__episodes=3,
        evaluation__probes=2,
    )  # fmt: skip
    assert run_attempt(Attempt(told, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    values = curve(tmp_path / "run")
    for prefix in ("eval", "eval_sampled"):
        for iteration in (0, 1):
            assert values[f"{prefix}/success", iteration] in (0.0, 1 / 3, 2 / 3, 1.0)
            assert values[f"{prefix}/return", iteration] == values[f"{prefix}/success", iteration]
    probes = [event["task"] for event in events(tmp_path / "run", "episode") if event["kind"] == "eval"]
    assert probes == ["i0", "i1", "i0", "i1"]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workflow__epochs": 1, "run__iterations": 2}, "has played all its prompts"),
        ({"workflow__generator": "other"}, "no generator has TASK_TYPE = 'other'"),
        ({"workflow__url": "http://127.0.0.1:9", "workflow__retry_limit": 2}, "does not answer"),
    ],
)
def test_a_run_without_records_ends_with_an_error(
    changes: dict[str, Any], said: str, model: Path, service: Service, tmp_path: Path
) -> None:
    told = config(model, **changes)
    assert run_attempt(Attempt(told, "r", 1, tmp_path / "run", tmp_path), local=True) == 1
    assert said in events(tmp_path / "run", "status")[-1]["message"]


@pytest.mark.extended
def test_failed_attempts_are_counted_without_records(model: Path, service: Service, tmp_path: Path) -> None:
    told = config(model, workflow__generator="", workflow__input_file="", workflow__retry_limit=3)
    assert run_attempt(Attempt(told, "r", 1, tmp_path / "run", tmp_path), local=True) == 1
    message = events(tmp_path / "run", "status")[-1]["message"]
    assert "in 4 attempts" in message and "0 of 4 groups" in message and "no group is complete" in message


@pytest.mark.extended
def test_a_generator_can_call_the_policy_in_training(model: Path, service: Service, tmp_path: Path) -> None:
    """The built-in generator through the run's own gateway: the sampled tokens get the rewards."""
    told = config(
        model, run__iterations=16, workflow__generator="single_turn", workflow__engine_url="policies", workflow__processes=4,
        workflow__evaluation_file="prompts.jsonl", evaluation__every=16, evaluation__episodes=4, evaluation__probes=2,
        evaluation__sampled=False,
        rollout__group_size=16,
    )  # fmt: skip
    folder = tmp_path / "run"
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    values = curve(folder)
    assert values["eval/failed", 0] == values["eval/failed", 16] == 0
    first, last = (
        sum(values["train/return", each] for each in some) for some in (range(1, 5), range(13, 17))
    )
    assert last > 2 * first, (first, last)
    with service.client() as client:
        assert client.get("/stats").json()["data"]["rollout"]["state"] == "none", "it ends with the run"


@pytest.mark.extended
def test_records_from_the_runs_gateway_keep_sampled_tokens(
    model: Path, service: Service, tmp_path: Path
) -> None:
    """The built-in query hands back ids, logprobs and versions: ratios begin at 1, ages are true."""
    told = config(
        model, run__iterations=3, workflow__generator="counted", workflow__engine_url="policies", workflow__processes=4,
        checkpoint__every=0, reporting__episodes_per_iteration=32,
    )  # fmt: skip
    told = told.model_copy(update={"algorithm": told.algorithm.model_copy(update={"correction": "truncate"})})
    folder = tmp_path / "run"
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    values = curve(folder)
    ages: dict[int, list[int]] = {}
    loaded = load_model(model)
    for event in events(folder, "episode"):
        ((said,),) = [turn["candidates"] for turn in event["turns"]]
        ages.setdefault(event["iteration"], []).append(event["iteration"] - 1 - min(said["versions"]))
        if set(said["versions"]) == {0}:
            expected = naive_logprobs(loaded, event["turns"][0]["prompt_ids"], said["token_ids"])
            assert said["logprobs"] == pytest.approx(expected, abs=1e-3)
    assert ages[1] == [0] * 32
    for iteration in (1, 2, 3):
        assert values["rollout/staleness", iteration] <= 2 and all(0 <= age <= 2 for age in ages[iteration])
    assert 0.0 < values["policy/agent/mismatch_max", 1] < 1e-3, (
        "what was sampled, not what the learner computed for itself"
    )
    assert values["policy/agent/correction_weight", 1] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.extended
@pytest.mark.parametrize("bound", [0, 1])
def test_old_tokens_are_corrected_or_left_out(
    bound: int, model: Path, service: Service, tmp_path: Path
) -> None:
    """Both iterations take records that version 0 sampled; at the second the policy is version 1."""
    told = config(
        model, run__iterations=2, workflow__generator="", workflow__input_file="", workflow__max_staleness=bound,
        rollout__tasks=2, checkpoint__every=0, reporting__episodes_per_iteration=16,
    )  # fmt: skip
    told = told.model_copy(update={"algorithm": told.algorithm.model_copy(update={"correction": "truncate"})})
    loaded = load_model(model)
    with service.client() as client:
        for number in range(2 * 2 * 8):
            word = TOKENIZER(f"w{number % 8}", add_special_tokens=False)["input_ids"][0]
            prompt = [4, 17, 5]
            (logprob,) = naive_logprobs(loaded, prompt, [word])
            said = {
                "role": "assistant",
                "content": f"w{number % 8}",
                "prompt_token_ids": prompt,
                "token_ids": [word],
            }
            said |= {"logprobs": [logprob], "versions": [0]}
            record = {"uid": f"{number}", "instance_id": f"{number // 8}", "reward": float(number % 8 == 0)}
            record |= {"messages": [{"role": "user", "content": "w10"}, said], "extra_info": {}}
            client.post("/buffer/write", json=record).raise_for_status()
    folder = tmp_path / "run"
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    values = curve(folder)
    assert (values["rollout/staleness", 1], values["rollout/staleness", 2]) == (0.0, 1.0)
    assert values["rollout/dropped", 1] == 0 and values["rollout/dropped", 2] == (0 if bound else 16)
    assert values["policy/agent/correction_weight", 1] == pytest.approx(1.0, abs=1e-3)
    if bound:
        assert abs(values["policy/agent/correction_weight", 2] - 1.0) > 0.01
    assert {
        tuple(turn["candidates"][0]["versions"])
        for event in events(folder, "episode")
        for turn in event["turns"]
    } == {(0,)}


@pytest.mark.extended
@pytest.mark.parametrize("written", [0, 1], ids=["at once", "after an iteration"])
def test_a_run_that_waits_for_records_can_be_stopped(
    written: int, model: Path, service: Service, tmp_path: Path
) -> None:
    """It would look again in an hour."""
    told = config(
        model, workflow__generator="", workflow__input_file="", workflow__poll_interval=3600.0, rollout__tasks=1,
        checkpoint__every=0,
    )  # fmt: skip
    with service.client() as client:
        for repeat in range(8 * written):
            said = [{"role": "user", "content": "w10"}, {"role": "assistant", "content": f"w{repeat}"}]
            record = {"uid": f"{repeat}", "instance_id": "a", "messages": said, "reward": float(repeat == 0)}
            client.post("/buffer/write", json=record | {"extra_info": {}}).raise_for_status()
    folder = tmp_path / "run"
    with stopped_when(folder, completed=written):
        assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    last = events(folder, "status")[-1]
    assert (last["state"], last["iteration"]) == ("stopped", written)
    assert (folder / "checkpoints" / "iteration-000001").is_dir() == bool(written)
