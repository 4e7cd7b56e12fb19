"""A harness of verifiers that holds the conversation in this process, with the task's tools: no program is started for a turn.

It needs the package verifiers on import.
"""

import json
import sys
from contextlib import suppress
from typing import Any

from httpx import AsyncClient
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.null import NullHarness, NullHarnessConfig, program
from verifiers.v1.runtimes import ProgramResult

__all__ = ["ChatHarness"]
_ID = "troupe_chat"
CHAT = NullHarnessConfig(id=_ID)
"""The harness in a seat's config."""


class ChatHarness(NullHarness):  # type: ignore[misc]
    """As verifiers' harness "null", whose program needs uv and the package index."""

    async def setup(self, runtime: Any) -> None:
        """Nothing to install."""

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> ProgramResult:
        """Answer until an answer has no calls."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        asked = isinstance(prompt, str)
        messages += [{"role": "user", "content": prompt}] if asked else map(message_to_wire, prompt or ())
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        tools, names, specs = await program.connect_mcp({"mcpServers": servers})
        # On this machine: certificates take long to load.
        http = AsyncClient(verify=False, timeout=None, trust_env=False)
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=http) as client:
            while True:
                message = await program.chat(client, ctx.model, messages, tools)
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return ProgramResult(exit_code=0, stdout="", stderr="")
                for call in message.tool_calls:
                    result = await _result(specs, names, call.function)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def _result(servers: dict[str, Any], names: dict[str, Any], called: Any) -> Any:
    """What a tool returns, or the policy's mistake in words."""
    arguments: Any = None
    with suppress(ValueError):
        arguments = json.loads(called.arguments or "{}")
    if called.name not in names:
        return f"error: unknown tool {called.name!r}"
    if not isinstance(arguments, dict):
        return "error: tool arguments must be a JSON object"
    return await program.call_mcp(servers, names, called.name, arguments)


sys.modules[f"verifiers.v1.harnesses.{_ID}"] = sys.modules[__name__]  # where verifiers imports harnesses from
