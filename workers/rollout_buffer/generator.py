"""Base of generator plugins: plays the prompts of a file in parallel, and writes each rollout to the buffer.

    TASK_TYPE = "mine"

    def run_rollout(data):
        generator = BaseGenerator.from_request(data)
        generator.entry(data["input_file"], query_single_turn, my_reward, data["num_epoch"])

A rollout function is (client, messages, sampling_params) -> messages, a reward function (messages) or (messages, item) ->
number; `item` is the line of the input file. They run in worker processes, so they may block and may crash.
"""

import inspect
import multiprocessing
import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import httpx

from training_core.errors import EngineFailure, TroupeError
from training_core.json_lines import read_lines

Messages = list[dict[str, Any]]
SAMPLED = ("prompt_token_ids", "token_ids", "logprobs", "versions", "finish_reason")
"""Fields of an assistant's message in a record that describe the sampled tokens. See training_core/llm/external/records.py."""
ATTEMPTS = 6
PAUSE_SECONDS = 10.0
"""Pause after an abort, while the server loads new weights."""
_OPENAI = (
    "max_tokens", "temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty", "logprobs"
)  # fmt: skip
"""Sampling parameters of the protocol; others (top_k, min_p ...) are sent as extra fields of the body."""


def make_client(url: str) -> Any:
    """The official client for a server's address, with or without /v1; a password in the address becomes the API key."""
    import openai

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/")
    base = urlunsplit((parts.scheme, host, path if path.endswith("/v1") else f"{path}/v1", "", ""))
    return openai.OpenAI(
        base_url=base,
        api_key=parts.password or "none",
        max_retries=0,
        http_client=httpx.Client(trust_env=False, timeout=httpx.Timeout(600.0, connect=10.0)),
    )


def query_single_turn(
    client: Any,
    messages: Messages,
    sampling_params: Mapping[str, Any],
    tools: list[dict[str, Any]] | None = None,
    *,
    model: str = "custom",
    pause: float = PAUSE_SECONDS,
) -> Messages:
    """The conversation with one more assistant message. Raises EngineFailure after ATTEMPTS failed requests.

    An answer that ends with finish_reason "abort" is partial: the next request continues it (`continue_final_message`), with
    max_tokens reduced by the tokens generated so far.
    """
    text: str | None = None
    sampled: dict[str, Any] = {}
    spent = 0
    failure = "no answer"
    for _ in range(ATTEMPTS):
        request = _request(messages, sampling_params, tools, text, spent)
        if request["max_tokens"] is not None and request["max_tokens"] <= 0:
            break
        try:
            response = client.chat.completions.create(model=model, **request)
        except Exception as error:  # any error of the server or the network: retried
            failure = f"{type(error).__name__}: {error}"
            time.sleep(min(pause, 1.0))
            continue
        if not response.choices:
            failure = "an answer without choices"
            continue
        choice = response.choices[0]
        sampled = (
            _sampled(response, choice) if text is None else _appended(sampled, _sampled(response, choice))
        )
        text = (text or "") + (choice.message.content or "")
        if choice.finish_reason != "abort":
            return [*messages, _message(text, choice.message) | sampled]
        spent += response.usage.completion_tokens if response.usage else 0
        time.sleep(pause)
    if text is None:
        raise EngineFailure(f"the engine gave no answer in {ATTEMPTS} tries: {failure}")
    return [*messages, {"role": "assistant", "content": text} | sampled]


def _request(
    messages: Messages,
    sampling: Mapping[str, Any],
    tools: list[dict[str, Any]] | None,
    text: str | None,
    spent: int,
) -> dict[str, Any]:
    extra = {name: value for name, value in sampling.items() if name not in _OPENAI}
    messages = [
        {name: value for name, value in message.items() if name not in SAMPLED} for message in messages
    ]
    request: dict[str, Any] = {
        "messages": messages,
        "seed": random.randint(1, 10_000_000),
        "max_tokens": None,
        **{name: value for name, value in sampling.items() if name in _OPENAI},
    }
    if tools:
        request["tools"] = tools
    if text is not None:
        request["messages"] = [*messages, {"role": "assistant", "content": text}]
        extra |= {"continue_final_message": True, "add_generation_prompt": False}
        if request["max_tokens"] is not None:
            request["max_tokens"] -= spent
    return request | ({"extra_body": extra} if extra else {})


def _sampled(response: Any, choice: Any) -> dict[str, Any]:
    """The sampled tokens as reported by the server, for the record; empty if it does not report them."""
    ids, prompt = getattr(choice, "token_ids", None), getattr(response, "prompt_token_ids", None)
    if not ids or not prompt:
        return {}
    sampled = {"prompt_token_ids": prompt, "token_ids": ids, "finish_reason": choice.finish_reason}
    for name, reported in (("logprobs", "token_logprobs"), ("versions", "versions")):
        values = getattr(choice, reported, None)
        if values is not None and len(values) == len(ids):
            sampled[name] = values
    return sampled


def _appended(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """An answer joined with its continuation; empty if the continuation's prompt is not exactly the previous ids."""
    if not before or before.keys() != after.keys():
        return {}
    if after["prompt_token_ids"] != before["prompt_token_ids"] + before["token_ids"]:
        return {}
    joined: dict[str, Any] = {
        name: before[name] + after[name] for name in ("token_ids", "logprobs", "versions") if name in before
    }
    return {**after, **joined, "prompt_token_ids": before["prompt_token_ids"]}


def _message(text: str, message: Any) -> dict[str, Any]:
    calls = [call.model_dump() for call in message.tool_calls or ()]
    return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})


RETRY_SECONDS = 600.0
"""Maximum seconds of retries while a service is unavailable."""
_PAUSE_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.1
"""First pause, since a reader may be active; later pauses double, up to the service's Retry-After."""


class WriteFailure(TroupeError):
    """The buffer refused a record, or was unavailable for too long."""


def write_record(
    client: httpx.Client, url: str, record: dict[str, Any], retry_seconds: float = RETRY_SECONDS
) -> None:
    """Return when the buffer at an address (with its token as password) has stored the record. Waits for a full buffer, and
    `retry_seconds` for an unavailable one. Raises WriteFailure.
    """
    deadline = time.monotonic() + retry_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            answer = client.post(url.rstrip("/") + "/buffer/write", json=record)
        except httpx.TransportError as error:
            problem, wait = f"{type(error).__name__}: {error}", _PAUSE_SECONDS
        else:
            if answer.is_success:
                return
            problem = f"HTTP {answer.status_code}: {answer.text[:300]}"
            if answer.status_code == 429:
                deadline = time.monotonic() + retry_seconds
            elif answer.status_code < 500:
                raise WriteFailure(f"the buffer refused a record of {record.get('instance_id')}: {problem}")
            wait = float(answer.headers.get("retry-after", _PAUSE_SECONDS))
        if time.monotonic() > deadline:
            raise WriteFailure(f"the buffer did not take a record for {retry_seconds:.0f} s: {problem}")
        time.sleep(min(wait, pause))
        pause *= 2


RolloutFunction = Callable[..., Messages]
"""(client, messages, sampling_params) -> messages; if it has a parameter `tools`, it gets those of the input file's line."""
RewardFunction = Callable[..., float | None]
Item = dict[str, Any]
_CONTEXT = multiprocessing.get_context("fork")
"""A plugin's functions need not be importable by name."""
_REPORT_SECONDS = 5.0
"""Seconds between lines of progress."""


class DataFailure(TroupeError):
    """An input file cannot be used."""


@dataclass
class BaseGenerator:
    """A pool of processes that plays every prompt of a file a given number of times. Field names are slime's."""

    remote_engine_url: str
    """Address of an OpenAI-compatible server; empty for rollout functions that need none (their client is None)."""
    remote_buffer_url: str
    """Address for records, including the token."""
    num_repeat_per_sample: int = 1
    """RolloutProcesses per prompt and epoch: the group size."""
    queue_size: int = 1_000_000
    """Maximum number of waiting prompts."""
    num_process: int = 10
    """Number of parallel rollouts."""
    task_type: str = "math"
    """Name in progress messages."""
    max_tokens: int = 4096
    """Maximum length of an answer, unless sampling_params sets it."""
    skip_instance_ids: Sequence[str] | None = None
    """Finished prompts: one that is named k times is skipped in the first k epochs."""
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    """Sent with every request: max_tokens, temperature, top_p ..."""
    begun: Mapping[str, int] = field(default_factory=dict)
    """Number of records that the buffer has of incomplete groups: these rollouts are not repeated."""
    num_prompts: int = 0
    """Number of prompts to play from the start of the file; 0 plays all."""
    attempts: int = 3
    """Maximum attempts of a rollout before its record is written as invalid."""
    invalid_reward: float = -1.0
    """Reward of an invalid record."""

    @classmethod
    def from_request(cls, data: Mapping[str, Any]) -> Self:
        """A generator from the data of run_rollout; numbers may be text."""
        sampling = dict(data.get("sampling_params") or {})
        return cls(
            str(data.get("remote_engine_url") or ""),
            str(data["remote_buffer_url"]),
            num_repeat_per_sample=int(data["num_repeat_per_sample"]),
            num_process=int(data.get("num_process") or 10),
            task_type=str(data["task_type"]),
            max_tokens=int(sampling.get("max_tokens") or data.get("max_tokens") or 4096),
            skip_instance_ids=data.get("skip_instance_ids"),
            sampling_params=sampling,
            begun=data.get("begun") or {},
            num_prompts=int(data.get("num_prompts") or 0),
            invalid_reward=float(data.get("invalid_reward", -1.0)),
        )

    def entry(
        self, input_file: str, rollout_func: RolloutFunction, reward_func: RewardFunction, num_epoch: int = 1
    ) -> None:
        """Play the file, and return when every record is written. Raises DataFailure."""
        items = read_prompts(Path(input_file))
        items = items[: self.num_prompts or len(items)]
        if self.remote_engine_url:
            import openai  # noqa: F401  # once, before the fork: it takes a second
        tasks: Any = _CONTEXT.Queue(self.queue_size)
        written, failed = _CONTEXT.Value("q", 0), _CONTEXT.Value("q", 0)
        takes_tools = "tools" in inspect.signature(rollout_func).parameters
        play = _Play(rollout_func, _two_arguments(reward_func), written, failed, takes_tools)
        workers = [
            _CONTEXT.Process(target=self._work, args=(tasks, play), daemon=True)
            for _ in range(self.num_process)
        ]
        for worker in workers:
            worker.start()
        total = sum(1 for _ in self._tasks(items, num_epoch))
        ended = threading.Event()
        line = threading.Thread(target=self._report, args=(play, total, ended), daemon=True)
        line.start()
        for task in self._tasks(items, num_epoch):
            tasks.put(task)
        for _ in workers:
            tasks.put(None)
        for worker in workers:
            worker.join()
        ended.set()
        line.join()

    def _tasks(self, items: Sequence[Item], epochs: int) -> Iterator[Item]:
        """One item per rollout; repetitions of a prompt are consecutive."""
        skip, begun = Counter(map(str, self.skip_instance_ids or ())), Counter(self.begun)
        for epoch in range(epochs):
            for item in items:
                instance = item["instance_id"]
                if skip[instance] > 0:
                    skip[instance] -= 1
                    continue
                done = min(begun.pop(instance, 0), self.num_repeat_per_sample)
                for repeat in range(done, self.num_repeat_per_sample):
                    yield {**item, "epoch": epoch, "repeat": repeat}

    def _work(self, tasks: Any, play: "_Play") -> None:
        """One process: play prompts from the queue until it returns None."""
        client = make_client(self.remote_engine_url) if self.remote_engine_url else None
        with httpx.Client(trust_env=False, timeout=60.0) as buffer:
            for item in iter(tasks.get, None):
                write_record(buffer, self.remote_buffer_url, self._record(item, client, play))
                with play.written.get_lock():
                    play.written.value += 1

    def _record(self, item: Item, client: Any, play: "_Play") -> dict[str, Any]:
        """Play a prompt. If every attempt raises, the record contains the error and counts as invalid; so does one whose reward is
        None, which is unscored.
        """
        sampling = {"max_tokens": self.max_tokens, **self.sampling_params}
        extra = {"label": item.get("label"), "epoch": item["epoch"], "repeat": item["repeat"]}
        messages, reward = list(item["prompt"]), self.invalid_reward
        tools = {"tools": item["tools"]} if item.get("tools") else {}
        offered = tools if play.takes_tools else {}
        started = time.time()
        for attempt in range(1, self.attempts + 1):
            extra["attempts"] = attempt
            try:
                messages = play.rollout(
                    client, [dict(message) for message in item["prompt"]], dict(sampling), **offered
                )
                value = play.reward(messages, item)
                extra.pop("error", None)
                if value is None:
                    extra["unscored"] = True
                else:
                    reward = float(value)
                break
            except (
                Exception
            ) as error:  # the plugin's code or its server failed: the record contains the error
                extra["error"] = f"{type(error).__name__}: {error}"[:500]
        if "error" in extra:
            with play.failed.get_lock():
                play.failed.value += 1
        return {
            "uid": str(uuid.uuid4()),
            "instance_id": item["instance_id"],
            "messages": messages,
            **tools,
            "reward": reward,
            "raw_reward": reward,
            "extra_info": extra | {"started": started, "timestamp": time.time()},
        }

    def _report(self, play: "_Play", total: int, ended: threading.Event) -> None:
        last = False
        while not last:
            last = ended.wait(_REPORT_SECONDS)
            sys.stdout.write(
                f"{self.task_type}: {play.written.value:,} of {total:,} records written, {play.failed.value:,} invalid\n"
            )
            sys.stdout.flush()


@dataclass(frozen=True)
class _Play:
    """Parameters that all worker processes share."""

    rollout: RolloutFunction
    reward: Callable[[Messages, Item], float | None]
    written: Any
    failed: Any
    takes_tools: bool
    """Whether the rollout function gets a prompt's tools."""


def read_prompts(path: Path) -> list[Item]:
    """Read JSONL of {instance_id, prompt: [messages], label?}. Raises DataFailure with the number of the invalid line."""
    items: list[Item] = []
    try:
        lines = list(read_lines(path))
    except OSError as error:
        raise DataFailure(f"cannot read {path}: {error}") from error
    for line in lines:
        number, item = line.number, line.value
        if line.problem:
            raise DataFailure(f"{path}, line {number}: {line.problem}")
        if not isinstance(item, dict) or "instance_id" not in item:
            raise DataFailure(
                f"{path}, line {number}: no instance_id; `troupe data assign-ids {path}` adds them"
            )
        prompt = item.get("prompt")
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        if not isinstance(prompt, list) or not prompt:
            raise DataFailure(f"{path}, line {number}: prompt is neither text nor a list of chat messages")
        items.append({**item, "instance_id": str(item["instance_id"]), "prompt": prompt})
    if not items:
        raise DataFailure(f"{path} has no prompt")
    return items


def _two_arguments(reward: RewardFunction) -> Callable[[Messages, Item], float | None]:
    """Adapt a reward function to the signature (messages, item)."""
    parameters = len(inspect.signature(reward).parameters)
    return reward if parameters >= 2 else lambda messages, _: reward(messages)
