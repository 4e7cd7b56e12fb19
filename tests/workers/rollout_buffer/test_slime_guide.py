"""Slime's agent rollout guide: its generator, hooks and examples run as they stand, against a real service."""

import asyncio
import copy
import importlib
import json
import queue
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.training_core.llm.external.test_records import reader
from tests.training_core.llm.external.test_records import record as talk
from tests.training_core.llm.toys import TOKENIZER
from tests.workers.rollout_buffer.engine import StubEngine
from tests.workers.rollout_buffer.serving import Service
from tests.workers.rollout_buffer.test_training import config
from tests.workers.rollout_buffer.test_training import model as model  # a fixture
from tests.workers.running import curve, events
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt
from workers.rollout_buffer.plugins import load_plugin

GUIDE = Path(__file__).with_name("slime_guide")
ROLLOUT = "tests.workers.rollout_buffer.slime_agent_rollout"
LINES = [
    {"instance_id": f"task_00{number}", "prompt": [{"role": "user", "content": f"w{number}"}]}
    for number in range(1, 5)
]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    home = tmp_path / "home"
    monkeypatch.setenv("TROUPE_HOME", str(home))
    (home / "data").mkdir(parents=True)
    (home / "data" / "your_data.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    running = Service(home, "--generators", str(GUIDE)).start()
    yield running
    running.stop()


@pytest.mark.extended
def test_the_guides_generator_fills_the_buffer_and_a_redelivery_is_the_same(service: Service) -> None:
    """By its own hooks; its normalize_group_data changes records in place, which must not be kept."""

    def answer(request: dict[str, Any]) -> tuple[str, str, int]:
        assert request["model"] == "custom" and request["stream"] is False
        return (
            ("correct_answer " if request["seed"] % 2 else "no ") + request["messages"][0]["content"],
            "stop",
            2,
        )

    with StubEngine(answer) as engine, service.client() as client:
        request = {
            "task_type": "your_custom_task", "input_file": "your_data.jsonl", "num_repeat_per_sample": "8", "num_epoch": 1,
            "num_process": 4, "sampling_params": {"max_tokens": 16, "temperature": 0.8}, "remote_engine_url": engine.url,
        }  # fmt: skip
        assert client.post("/start_rollout", json=request).json() == {"message": "Rollout started"}
        deadline = time.monotonic() + 300
        while client.get("/stats").json()["data"]["ready_groups"] < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        first = client.post("/get_rollout_data", json={"delivery": 0}).json()["data"]
        again = client.post("/get_rollout_data", json={"delivery": 0}).json()["data"]
    assert first["data"] == again["data"] and len(first["data"]) == 32
    assert first["meta_info"]["total_samples"] == first["meta_info"]["valid_samples"] == 32
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in first["data"]:
        groups.setdefault(record["instance_id"], []).append(record)
    assert sorted(groups) == [line["instance_id"] for line in LINES]
    for group in groups.values():
        raw = [record["raw_reward"] for record in group]
        mean = sum(raw) / 8
        deviation = (sum((each - mean) ** 2 for each in raw) / 8) ** 0.5
        for record in group:
            wanted = (record["raw_reward"] - mean) / (deviation + 1e-8)
            assert record["reward"] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.extended
def test_the_guides_generator_trains_the_policy_it_calls(
    model: Path, service: Service, tmp_path: Path
) -> None:
    told = config(
        model, run__iterations=2, workflow__generator="your_custom_task", workflow__input_file="your_data.jsonl",
        workflow__engine_url="policies", workflow__processes=4, checkpoint__every=0,
    )  # fmt: skip
    folder = tmp_path / "run"
    assert run_attempt(Attempt(told, "r", 1, folder, tmp_path), local=True) == 0
    values = curve(folder)
    assert values["rollout/failed", 2] == 0 and values["buffer/total_samples", 2] > 0
    for event in events(folder, "episode"):
        (turn,) = event["turns"]
        assert event["episode_return"] == pytest.approx(
            min(len(turn["candidates"][0]["text"]) / 1000, 1.0) * 0.3, abs=2e-3
        )
        assert turn["messages"][0]["content"] == event["title"]


def test_the_guides_partial_answers_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that ends with "abort" is continued with continue_final_message and the rest of max_tokens."""
    from openai import OpenAI

    plugin = load_plugin(GUIDE / "slime_guide_generator.py")
    assert plugin is not None
    guide = plugin.run_rollout.__globals__
    monkeypatch.setattr(guide["time"], "sleep", lambda seconds: None)
    parts = [("one ", "abort", 3), ("two", "stop", 1)]
    with StubEngine(lambda request: parts.pop(0)) as engine, httpx.Client(trust_env=False) as http:
        client = OpenAI(base_url=f"{engine.url}/v1", api_key="x", http_client=http)
        said = guide["query_single_turn"](client, [{"role": "user", "content": "w1"}], {"max_tokens": 8})
    assert said[-1] == {"role": "assistant", "content": "one two"}
    assert engine.requests[1]["continue_final_message"] is True and engine.requests[1]["max_tokens"] == 5


def worker_process(task_queue, done_queue, rollout_func, reward_func, client, sampling_params):  # type: ignore[no-untyped-def]
    """The guide's example 1, word for word."""
    for line in iter(task_queue.get, "STOP"):
        item = json.loads(line) if isinstance(line, str) else line

        group_data = []

        # Generate multiple samples per prompt
        for _ in range(sampling_params.get("n", 1)):
            messages = copy.deepcopy(item["prompt"])

            # Run rollout
            generated_messages = rollout_func(client, messages, sampling_params)

            # Calculate reward
            reward = reward_func(generated_messages)

            # Create result item
            result_item = {
                "uid": str(uuid.uuid4()),
                "instance_id": item["instance_id"],
                "messages": generated_messages,
                "reward": reward,
                "raw_reward": reward,  # Store original reward
                "extra_info": {"timestamp": time.time(), "label": item.get("label", None)},
            }

            group_data.append(result_item)

        done_queue.put(group_data)


def test_the_service_accepts_records_of_the_guides_worker(service: Service) -> None:
    tasks: Any = queue.Queue()
    done: Any = queue.Queue()
    tasks.put(json.dumps(LINES[0]))
    tasks.put("STOP")

    def rollout(
        client: Any, messages: list[dict[str, Any]], sampling: dict[str, Any]
    ) -> list[dict[str, Any]]:
        return [*messages, {"role": "assistant", "content": "w1"}]

    work: Any = worker_process
    work(tasks, done, rollout, lambda messages: float(len(messages)), None, {"n": 8})
    (group,) = list(done.queue)
    with service.client() as client:
        for record in group:
            assert client.post("/buffer/write", json=record).json()["success"]
        taken = client.post("/get_rollout_data", json={}).json()["data"]["data"]
    assert [record["uid"] for record in taken] == [record["uid"] for record in group]


def test_the_guides_loss_mask_class_masks_records() -> None:
    path = f"{ROLLOUT}:YourTaskLossMaskGenerator"
    given = talk(("user", "w1 w2"), ("assistant", "w3 w4"))
    reads = reader(loss_mask="custom", loss_mask_path=path, loss_mask_type="your_task")
    (turn,) = reads.episode(given, "train", "0").turns
    assert turn.prompt_ids == TOKENIZER.encode("w1 w2")
    assert turn.candidates[0].answer.token_ids == TOKENIZER.encode("w3 w4")
    failed = reader(loss_mask="custom", loss_mask_path=path).episode(given, "train", "0")
    assert "set workflow.loss_mask_type to a type that it supports" in failed.error


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["qwen", "generic"])
def test_the_guides_rollout_function_of_the_trainer_reads_the_service(
    kind: str, model: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slime's trainer, as example 2 has it, asks this service for a batch and masks it."""
    guide: Any = importlib.import_module(ROLLOUT)
    asleep: list[float] = []

    async def sleep(seconds: float) -> None:
        asleep.append(seconds)
        await asyncio.sleep(0.05)

    monkeypatch.setattr(guide, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(guide, "START_ROLLOUT", True)
    with StubEngine(lambda request: ("w3 w4", "stop", 2)) as engine:
        args = SimpleNamespace(
            hf_checkpoint=str(model), agent_rollout_buffer_url=service.url.replace("//", f"//buffer:{service.token}@"),
            rollout_batch_size=4, n_samples_per_prompt=8, fetch_trajectory_retry_times=-1, loss_mask_type=kind,
            task_type="your_custom_task", prompt_data="your_data.jsonl", rollout_num_process=4, engine_url=engine.url,
        )  # fmt: skip
        held: list[Any] = []
        samples = asyncio.run(guide.generate_agent_rollout(args, 0, held))
    assert samples == held and len(samples) == 32 and set(asleep) == {5}
    assert {sample.index for sample in samples} == {line["instance_id"] for line in LINES}
    answer = TOKENIZER.encode("w3 w4 <eos>")
    for sample in samples:
        assert sample.response_length == len(answer) and sample.tokens[-len(answer) :] == answer
        assert sample.loss_mask == [1] * len(answer)
        assert sample.metadata["raw_reward"] == pytest.approx(0.3 * 5 / 1000)
