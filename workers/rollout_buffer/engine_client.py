"""Requests one answer from an OpenAI-compatible server, across updates of its weights."""

import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from training_core.errors import EngineFailure

Messages = list[dict[str, Any]]
SAMPLED = ("prompt_token_ids", "token_ids", "logprobs", "versions", "finish_reason")
"""Fields of an assistant's message in a record that describe the sampled tokens. See training_core/llm/external/sampled_records.py."""
ATTEMPTS = 6
PAUSE_SECONDS = 10.0
"""Pause after an abort, while the server loads new weights."""
_OPENAI = {
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
}
"""Sampling parameters of the protocol; others (top_k, min_p ...) are sent as extra fields of the body."""


def make_client(url: str) -> Any:
    """The official client for a server's address, with or without /v1; a password in the address becomes the API key."""
    import httpx
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
    for name, field in (("logprobs", "token_logprobs"), ("versions", "versions")):
        values = getattr(choice, field, None)
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
