"""Generator plugins and the base class, through a real service, real worker processes and a stand-in engine."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.workers.rollout_buffer.engine import StubEngine
from tests.workers.rollout_buffer.serving import Service
from training_core.errors import DataError, EngineFailure
from workers.rollout_buffer.generator import (
    BaseGenerator,
    DataFailure,
    _Play,
    make_client,
    query_single_turn,
    read_prompts,
)
from workers.rollout_buffer.generators.single_turn import reward
from workers.rollout_buffer.plugins import BUILT_IN, PluginFailure, find_plugins

PLUGINS = Path(__file__).with_name("plugins")


def prompts(service: Service, contents: list[str], name: str = "prompts.jsonl") -> str:
    lines = [
        json.dumps(
            {"instance_id": f"i{place}", "prompt": [{"role": "user", "content": content}], "label": content}
        )
        for place, content in enumerate(contents)
    ]
    (service.home / "data").mkdir(parents=True, exist_ok=True)
    (service.home / "data" / name).write_text("\n".join(lines))
    return name


def drain(client: httpx.Client, groups: int) -> list[dict[str, Any]]:
    """The records of `groups` groups, with each delivery acknowledged."""
    records: list[dict[str, Any]] = []
    done, delivery, deadline = 0, 0, time.monotonic() + 400
    while done < groups:
        assert time.monotonic() < deadline, (done, client.get("/stats").json())
        body = client.post("/buffer/read", json={"timeout": 5, "delivery": delivery}).json()["data"]
        delivery = body["meta_info"]["delivery"]
        done += len(body["meta_info"]["finished_groups"])
        records += body["data"]
    client.post("/get_rollout_data", json={"delivery": delivery})
    return records


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path, "--generators", str(PLUGINS)).start()
    yield running
    running.stop()


def start(client: httpx.Client, **request: Any) -> None:
    answer = client.post("/start_rollout", json=request)
    assert answer.json() == {"message": "Rollout started"}, answer.text


@pytest.mark.extended
def test_a_folders_plugin_fills_the_buffer_with_its_hooks(service: Service) -> None:
    with service.client() as client:
        assert client.get("/").json()["task_types"] == ["counted", "echo", "guess", "single_turn"]
        file = prompts(service, ["1", "2", "break", "4"])
        start(
            client,
            task_type="echo",
            input_file=file,
            num_process="3",
            num_repeat_per_sample="2",
            num_epoch="2",
        )
        records = drain(client, 6)
        assert Counter(record["instance_id"] for record in records) == {"i0": 4, "i1": 4, "i3": 4}
        assert {record["reward"] / record["raw_reward"] for record in records} == {10.0}
        assert {record["extra_info"]["epoch"] for record in records} == {0, 1}
        deadline = time.monotonic() + 400
        while (stats := client.get("/stats").json()["data"])["rollout"]["state"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert stats["rollout"]["state"] == "finished"
        assert stats["groups_dropped"] == 2, (
            "what raised was written as invalid: its groups are whole, and dropped"
        )
    log = (service.home / "rollout_buffer" / "rollout-default.log").read_text()
    assert "echo: 16 of 16 records written, 4 invalid" in log


@pytest.mark.extended
def test_a_rollout_resumes_after_the_service_was_killed(service: Service) -> None:
    with service.client() as client:
        file = prompts(service, [str(number) for number in range(12)])
        sampling = {"seconds": 0.1}
        start(
            client,
            task_type="echo",
            input_file=file,
            num_process=2,
            num_repeat_per_sample=3,
            sampling_params=sampling,
        )
        before = drain(client, 3)  # all that are ready: may be more
    service.kill()
    service.start()
    with service.client() as client:
        after = drain(client, 12 - len(before) // 3)
    found = Counter(record["instance_id"] for record in [*before, *after])
    assert found == {f"i{number}": 3 for number in range(12)}, "every prompt once, whole"


def test_a_new_rollout_skips_named_instances_once_per_mention(service: Service) -> None:
    with service.client() as client:
        file = prompts(service, ["1", "2", "3"])
        request = {"task_type": "echo", "input_file": file, "num_process": 2, "num_repeat_per_sample": 1}
        start(client, **request, num_epoch=2, skip_instance_ids=["i0", "i0", "i1"])
        assert Counter(record["instance_id"] for record in drain(client, 3)) == {"i1": 1, "i2": 2}


def test_input_files_must_be_below_the_data_folder(service: Service) -> None:
    with service.client() as client:
        for name, said in (
            ("/etc/passwd", "not below"),
            ("../x", "not below"),
            ("none.jsonl", "no input_file"),
        ):
            answer = client.post("/start_rollout", json={"task_type": "echo", "input_file": name})
            assert answer.status_code == 400 and said in answer.json()["message"]


@pytest.mark.extended
def test_the_built_in_plugin_calls_the_engine_for_every_repetition(service: Service) -> None:
    def engine(request: dict[str, Any]) -> tuple[str, str, int]:
        return f"the answer is {request['messages'][-1]['content']}", "stop", 4

    with service.client() as client, StubEngine(engine) as stub:
        file = prompts(service, ["7", "9"])
        start(
            client,
            task_type="single_turn",
            input_file=file,
            num_process=2,
            num_repeat_per_sample=2,
            remote_engine_url=stub.url.replace("http://", "http://user:key@"),
            sampling_params={"temperature": 0.7, "max_tokens": 32, "top_k": 5},
        )
        records = drain(client, 2)
    assert [record["raw_reward"] for record in records] == [1.0] * 4
    assert {record["messages"][-1]["content"] for record in records} == {"the answer is 7", "the answer is 9"}
    asked = stub.requests[0]
    assert (asked["temperature"], asked["max_tokens"], asked["top_k"]) == (0.7, 32, 5)
    assert stub.keys == ["Bearer key"] * 4
    assert len({request["seed"] for request in stub.requests}) == 4, "processes draw seeds of their own"


def ask(url: str, sampling: dict[str, Any]) -> list[dict[str, Any]]:
    with make_client(url) as client:
        return query_single_turn(client, [{"role": "user", "content": "count"}], sampling, pause=0.0)


def test_a_partial_answer_is_continued_with_the_remaining_tokens() -> None:
    parts = iter([("one ", "abort", 3), ("two ", "abort", 4), ("three", "stop", 1)])
    with StubEngine(lambda request: next(parts)) as stub:
        said = ask(stub.url + "/v1", {"max_tokens": 10})
    assert said[-1] == {"role": "assistant", "content": "one two three"}
    assert [request["max_tokens"] for request in stub.requests] == [10, 7, 3]
    assert [request.get("continue_final_message") for request in stub.requests] == [None, True, True]
    assert stub.requests[2]["messages"][-1] == {"role": "assistant", "content": "one two "}


def test_a_request_is_tried_six_times() -> None:
    with (
        StubEngine(lambda request: ("", "error", 0)) as stub,
        pytest.raises(EngineFailure, match="in 6 tries"),
    ):
        ask(stub.url, {})
    assert len(stub.requests) == 6
    with StubEngine(lambda request: ("a", "abort", 2)) as stub:
        found = ask(stub.url, {"max_tokens": 5})
    assert found[-1]["content"] == "aaa", "5 tokens are spent after three parts"


def test_plugins_are_found_by_what_they_define() -> None:
    plugins = find_plugins([BUILT_IN, PLUGINS])
    assert set(plugins.found) == {"counted", "echo", "guess", "single_turn"}
    assert set(plugins.found["echo"].hooks) == {"normalize_group_data", "get_group_data_meta_info"}
    with pytest.raises(
        PluginFailure,
        match=r"there are counted, echo, guess, single_turn; broken_generator.py cannot be loaded",
    ):
        plugins.get("other")


def test_stored_records_are_not_generated_again() -> None:
    generator = BaseGenerator("", "", num_repeat_per_sample=3, skip_instance_ids=["a"], begun={"b": 2})
    items = [{"instance_id": name, "prompt": []} for name in "ab"]
    tasks = [(task["instance_id"], task["epoch"], task["repeat"]) for task in generator._tasks(items, 2)]
    assert tasks == [("b", 0, 2), *[("a", 1, n) for n in range(3)], *[("b", 1, n) for n in range(3)]]


def test_a_reward_of_none_is_no_error_and_is_not_tried_again() -> None:
    calls: list[str] = []
    play = _Play(lambda *_: [*calls, {"role": "assistant"}], lambda *_: calls.append("reward"), None, None, False)  # type: ignore[func-returns-value] # fmt: skip
    record = BaseGenerator("", "")._record(
        {"instance_id": "a", "prompt": [], "epoch": 0, "repeat": 0}, None, play
    )
    assert calls == ["reward"] and record["reward"] == -1.0
    assert record["extra_info"]["unscored"] is True and "error" not in record["extra_info"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"prompt": "hello"}', r"line 1: no instance_id; `troupe data assign-ids"),
        ("{", "line 1: not JSON"),
        ("", "has no prompt"),
    ],
)
def test_errors_of_input_files_are_reported(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(DataFailure, match=said):
        read_prompts(tmp_path / "p.jsonl")


def test_the_built_in_generator_uses_the_prompts_reward_function() -> None:
    said = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": r"so it is \boxed{1/2} , I think"},
    ]
    item = {"instance_id": "a", "prompt": said[:1], "label": "0.5"}
    assert reward(said, item) == 0.0, "the label is not what is said last"
    assert reward(said, item | {"reward_type": "math"}) == 1.0
    assert reward(said, item | {"reward_type": "math", "label": "2"}) == 0.0
    with pytest.raises(DataError, match="'custom' is none of the built-in reward functions: math"):
        reward(said, item | {"reward_type": "custom"})
