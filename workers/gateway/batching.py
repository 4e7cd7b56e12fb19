"""Batches of agents' requests, whose failures become refusals."""

import logging
from dataclasses import replace

from training_core.errors import PromptRefused, RequestRefused
from training_core.llm.agents.session import PolicyClient
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.serving.batching import RequestBatcher
from training_core.types import Answer, Prompt

log = logging.getLogger(__name__)
CONTEXT_FULL = "context_length_exceeded"
"""OpenAI's code for a prompt that leaves no room for an answer."""


class Batcher(RequestBatcher):
    """Batches requests by policy, and tells requests at fault from engines that fail."""

    failure: Exception | None = None
    """The first failure of an engine that no request caused."""

    async def ask(self, client: PolicyClient, prompt: Prompt, settings: SamplingSettings) -> list[Answer]:
        """`prompt.count` answers. Raises RequestRefused."""
        try:
            return await self.generate_answers(client.policy, client.generate, prompt, settings)
        except Exception as error:
            raise await self._refusal(client, prompt, settings, error) from error

    async def _refusal(
        self, client: PolicyClient, prompt: Prompt, settings: SamplingSettings, error: Exception
    ) -> RequestRefused:
        """The refusal of a failed request. The run fails only if the engine fails at every request.

        A prompt of one token tests the engine: if it answers that, the request was at fault.
        """
        if isinstance(error, PromptRefused):
            return RequestRefused(
                str(error), 400, CONTEXT_FULL if "context" in str(error) else "invalid_request"
            )
        log.warning("a policy failed to answer a request: %s", describe(error))
        ids = client.renderer.encode("hello")[:1] or [0]
        trial = replace(prompt, token_ids=ids, count=1, offset=0, rid="")
        try:
            await self.generate_answers(
                client.policy, client.generate, trial, replace(settings, max_tokens=1)
            )
        except Exception:
            self.failure = self.failure or error
            return RequestRefused(f"the policy cannot answer: {error}", 503, "unavailable")
        return RequestRefused(f"the policy failed on this request: {describe(error)}", 500, "engine_failure")
