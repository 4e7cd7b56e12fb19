"""The openai engine: a vLLM or SGLang server samples, by the OpenAI completions API with token ids.

The server must be started (docs/train/engines.md) with logprobs of the sampling distribution and with its endpoints for new
weights. Noise is the server's: a seed per prompt, so tokens differ from those of the torch engine.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.checkpoints import write_errors_explained
from training_core.errors import EngineFailure, PromptRefused
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.engine_config import OpenAi
from training_core.llm.generation.prompt_checks import check_prompts, context_length
from training_core.llm.generation.stop_words import StopWords, end_tokens
from training_core.llm.models.lora import has_adapter, load_trained_weights, save_adapter, trained_weights
from training_core.seeding import keyed_seed
from training_core.served import address_refused
from training_core.types import Answer, Prompt, StopReason

if TYPE_CHECKING:
    from torch import Tensor

_POLL_SECONDS = 0.05
"""Seconds between checks for an interrupt."""
_RETRY_SECONDS = 0.5
"""Seconds before the second attempt; doubled each time."""
_REASONS: dict[str, StopReason] = {"stop": "stop", "length": "length", "abort": "interrupt"}
_REFUSALS = (400, 413, 422)
"""Statuses that mean that the request itself is invalid."""
_TOKEN = "token_id:"
"""How servers without `token_ids` write a token's id instead of its text."""


_CHECK_SECONDS = 10.0
"""Maximum time for a server's answer in a check."""


def check_servers(settings: OpenAi) -> str:
    """State the number of servers that answer. Raises EngineFailure for the first one that does not."""
    once = settings.model_copy(update={"attempts": 1, "timeout": min(settings.timeout, _CHECK_SECONDS)})
    engine = OpenAiEngine(once, None, None)  # type: ignore[arg-type]  # neither is used before it generates
    asyncio.run(engine.check())
    count = len(engine.urls)
    return f"{count} server{'s' * (count > 1)} answered"


class OpenAiEngine:
    """An Engine with a remote model. New weights are written into the local `model` before they are sent."""

    def __init__(
        self, settings: OpenAi, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, version: int = 0
    ) -> None:
        self.settings = settings
        self.model = model
        self.tokenizer = tokenizer
        self.version = version
        self._ends = end_tokens(tokenizer, model)
        self.urls = [url.rstrip("/") for url in settings.urls]
        self._name = settings.model
        self._context: int | None = None
        """Context length of the servers' model in tokens; None before they are asked, or if it has no limit."""
        self._folder: Path | None = None
        """Folder of the weights on the servers."""

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """Sample on the servers. Unfinished answers are discarded on an interrupt, because their tokens are not known here."""
        check_prompts(self.model, prompts, settings, self._context)
        return asyncio.run(self._generate(prompts, settings, interrupted)) if prompts else []

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """Write weights to the shared folder and have every server load them. Raises EngineFailure."""
        if not self.settings.weights_folder:
            raise EngineFailure(
                "the openai engine has no folder for new weights",
                remedy="set policies.*.engine.weights_folder",
            )
        try:
            load_trained_weights(self.model, state)
        except RuntimeError as error:
            raise EngineFailure(f"weights of version {version} do not fit the model: {error}") from error
        folder = Path(self.settings.weights_folder) / f"version-{version}"
        self._write(folder)
        asyncio.run(self._load_on_servers(folder))
        if self._folder and self._folder != folder:
            shutil.rmtree(self._folder)
        self._folder, self.version = folder, version

    def _write(self, folder: Path) -> None:
        with write_errors_explained(f"the weights {folder}", EngineFailure):
            folder.mkdir(parents=True, exist_ok=True)
            if has_adapter(self.model):
                save_adapter(folder, self.model, trained_weights(self.model), str(self.model.name_or_path))
            else:
                self.model.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)

    async def _load_on_servers(self, folder: Path) -> None:
        async with self._client() as client:
            await asyncio.gather(*(self._load_on_server(client, url, folder) for url in self.urls))
        if has_adapter(self.model):
            self._name = _adapter_name(folder)

    async def _load_on_server(self, client: httpx.AsyncClient, url: str, folder: Path) -> None:
        """Have one server load the weights in `folder` and discard keys and values of older ones."""
        vllm = self.settings.server == "vllm"
        if has_adapter(self.model):
            prefix = f"{url}/v1" if vllm else url
            adapter = {"lora_name": _adapter_name(folder), "lora_path": str(folder)}
            await self._post(client, f"{prefix}/load_lora_adapter", adapter)
            if self._folder and self._folder != folder:
                old = {"lora_name": _adapter_name(self._folder)}
                await self._post(client, f"{prefix}/unload_lora_adapter", old)
        elif vllm:
            call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            await self._post(client, f"{url}/collective_rpc", call)
            await self._post(client, f"{url}/reset_prefix_cache", {})
        else:
            await self._post(client, f"{url}/update_weights_from_disk", {"model_path": str(folder)})
            await self._post(client, f"{url}/flush_cache", {})

    async def _generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None
    ) -> list[list[Answer]]:
        words = StopWords(self.tokenizer, settings.stop, self._ends)
        slots = asyncio.Semaphore(self.settings.sequences)
        async with self._client() as client:
            if self._context is None:
                await self._read_model(client)
            limits = check_prompts(self.model, prompts, settings, self._context)

            async def request(number: int, prompt: Prompt, limit: int) -> list[Answer]:
                async with slots:
                    url = f"{self.urls[number % len(self.urls)]}/v1/completions"
                    call = _request(prompt, replace(settings, max_tokens=limit), self._name)
                    body = await self._post(client, url, call, PromptRefused)
                return [self._answer(choice, prompt, words) for choice in _choices(body, prompt.count)]

            tasks = [
                asyncio.create_task(request(number, prompt, limit))
                for number, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
            ]
            try:
                await _wait_for_all(tasks, interrupted)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        unfinished = [Answer([], [], [], "interrupt", "")]
        return [
            unfinished * prompt.count if task.cancelled() else task.result()
            for task, prompt in zip(tasks, prompts, strict=True)
        ]

    def _answer(self, choice: dict[str, Any], prompt: Prompt, words: StopWords) -> Answer:
        tokens, logprobs = _tokens(choice)
        whole = [*prompt.token_ids[len(prompt.token_ids) - prompt.offset :], *tokens]
        (text,) = words.answer_texts([whole])
        reason = _REASONS.get(choice.get("finish_reason") or "", "stop")
        return Answer(tokens, logprobs, [self.version] * len(tokens), reason, text)

    async def check(self) -> None:
        """Have every server list its models. Raises EngineFailure."""
        async with self._client() as client:
            for url in self.urls:
                await self._post(client, f"{url}/v1/models", None)

    async def _read_model(self, client: httpx.AsyncClient) -> None:
        """Read the context length of the first server's model, and its name unless the config has one."""
        model = (await self._post(client, f"{self.urls[0]}/v1/models", None))["data"][0]
        self._name = self._name or str(model["id"])
        self._context = model.get("max_model_len") or context_length(self.model)

    def _client(self) -> httpx.AsyncClient:
        """Raises EngineFailure if an address may not be reached."""
        for url in self.urls:
            if reason := address_refused(url):
                raise EngineFailure(f"the server at {url} is not asked: {reason}")
        key = os.environ.get(self.settings.key_variable, "") if self.settings.key_variable else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(timeout=self.settings.timeout, headers=headers, limits=limits)

    async def _post(
        self,
        client: httpx.AsyncClient,
        url: str,
        body: dict[str, Any] | None,
        refusal: type[EngineFailure] = EngineFailure,
    ) -> dict[str, Any]:
        """A server's response; without a body by GET. Raises EngineFailure after the last attempt, and `refusal` if
        the server rejects the request as invalid.
        """
        reason = ""
        for attempt in range(self.settings.attempts):
            if attempt:
                await asyncio.sleep(_RETRY_SECONDS * 2 ** (attempt - 1))
            try:
                response = await (client.get(url) if body is None else client.post(url, json=body))
            except httpx.TransportError as error:
                reason = f"{type(error).__name__} {error}"
                continue
            if response.status_code < 400:
                return _json_body(response, url)
            reason = (
                f"HTTP status {response.status_code}"  # never the text: the address may be a foreign server's
            )
            if response.status_code in _REFUSALS:
                raise refusal(f"the server at {url} refuses the request: {reason}")
            if response.status_code < 500:
                break
        raise EngineFailure(
            f"the server at {url} does not answer correctly: {reason}",
            remedy="start it, or correct policies.*.engine.urls",
        )


async def _wait_for_all(
    tasks: Sequence["asyncio.Task[list[Answer]]"], interrupted: Interrupted | None
) -> None:
    """Wait until all have answered, one has failed (which is raised), or generation is interrupted."""
    waiting: set[asyncio.Task[list[Answer]]] = set(tasks)
    while waiting and not (interrupted and interrupted()):
        done, waiting = await asyncio.wait(
            waiting, timeout=_POLL_SECONDS if interrupted else None, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in done:
            task.result()


def _request(prompt: Prompt, settings: SamplingSettings, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": prompt.token_ids,
        "n": prompt.count,
        "max_tokens": settings.max_tokens - prompt.offset,
        "temperature": 0.0 if settings.greedy else settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k or -1,
        "stop": list(settings.stop),
        "skip_special_tokens": False,  # stop strings may contain them
        "seed": keyed_seed(*prompt.key, prompt.first, prompt.offset) % 2**31,
        "logprobs": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def _json_body(response: httpx.Response, url: str) -> dict[str, Any]:
    """The body as an object; some endpoints respond with nothing or with text."""
    try:
        body = response.json()
    except ValueError:
        return {}
    if isinstance(body, dict) and body.get("success") is False:  # SGLang's form of a refusal
        raise EngineFailure(f"the server at {url} refused the request: its answer has success = false")
    return body if isinstance(body, dict) else {}


def _choices(body: dict[str, Any], count: int) -> list[dict[str, Any]]:
    choices = sorted(body.get("choices") or [], key=lambda choice: int(choice.get("index", 0)))
    if len(choices) != count:
        raise EngineFailure(f"the server returned {len(choices)} choices, not {count}")
    return choices


def _tokens(choice: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Token ids and logprobs of a choice. Raises EngineFailure if the server does not return them."""
    logprob_fields = choice.get("logprobs") or {}
    tokens = choice.get("token_ids")
    if tokens is None:
        named = [str(token) for token in logprob_fields.get("tokens") or []]
        if not all(token.startswith(_TOKEN) for token in named):
            raise EngineFailure(
                "the server returns no token ids",
                remedy="use one that supports return_token_ids (vLLM from 0.10.2 on)",
            )
        tokens = [int(token.removeprefix(_TOKEN)) for token in named]
    logprobs = logprob_fields.get("token_logprobs") or []
    if len(logprobs) != len(tokens):
        raise EngineFailure(f"the server returned {len(logprobs)} logprobs for {len(tokens)} tokens")
    return [int(token) for token in tokens], [float(logprob) for logprob in logprobs]


def _adapter_name(folder: Path) -> str:
    """A server's name for the adapter of one version, so that keys and values of other versions are not reused."""
    return f"{folder.parent.name}-{folder.name}"
