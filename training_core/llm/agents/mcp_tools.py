"""An agent that uses the tools of an MCP server (Model Context Protocol), local or by HTTP, before it answers.

For `workflow.path`, with the environments `arithmetic` and `dataset`. Every episode has its own session with the server, and its
own process of a local one. For another reward, override `reward`.
"""

import asyncio
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Self, TextIO

from pydantic import Field, TypeAdapter, ValidationError

from training_core.config.base import Section, cross_field
from training_core.config.errors import error_messages
from training_core.errors import ConfigError, EnvironmentFailure, InvalidValue
from training_core.event_loop import in_process_loop
from training_core.llm.agents.calculator import reward
from training_core.sandbox.bubblewrap import sandbox_filter, server_command

logging.getLogger("mcp").setLevel(logging.WARNING)  # two lines per session would fill the run's log
_CLOSED = -32000
"""MCP's error code of a lost connection."""
_ARGUMENTS = TypeAdapter(dict[str, Any])


class McpTools(Section):
    """The server, and the limits of its use: `workflow.args`."""

    command: tuple[str, ...] = ()
    """A local server that speaks over standard input and output, such as ["python", "/srv/tools.py"]; it runs in a sandbox."""
    folders: tuple[Annotated[str, Field(pattern="^/")], ...] = ()
    """Absolute folders that a local server may read."""
    url: str = Field("", pattern=r"^(https?://.+)?$")
    """Address of a server that speaks HTTP (Streamable HTTP)."""
    tools: tuple[str, ...] = ()
    """Names of the tools to offer; empty: all."""
    calls: int = Field(8, ge=1)
    """Answers of the policy per episode; without a final answer among them the reward is 0."""
    timeout: float = Field(30.0, gt=0.0)
    """Time limit of the server's start, of each call and of the end of the session in seconds."""
    result_characters: int = Field(4000, ge=1)
    """Characters of a result that the policy sees."""

    @cross_field
    def _one_server(self) -> Self:
        if bool(self.command) == bool(self.url) or (self.url and self.folders):
            raise InvalidValue(
                "command: either command and folders, or url name the server.", remedy="Set one"
            )
        return self


class McpAgent:
    """Plays one task: answers that call tools, then the final answer."""

    def __init__(self, **args: Any) -> None:
        """Raises ConfigError."""
        try:
            self.settings = McpTools.model_validate(args)
        except ValidationError as error:
            raise ConfigError(error_messages(error, McpTools)).below("workflow.args") from error

    def check(self) -> None:
        """Connect to the server once. Raises ConfigError, EnvironmentFailure."""
        asyncio.run(in_process_loop(self.connected(_tools)))

    async def run(self, data: Mapping[str, Any], *, client: Any, **extra: Any) -> float:
        """The reward of the final answer. Raises EnvironmentFailure if there is no server."""

        async def play(session: Any, tools: list[dict[str, Any]]) -> float:
            messages = list(data["messages"])
            for _ in range(self.settings.calls):
                create = client.chat.completions.create
                message = (await create(model="default", messages=messages, tools=tools)).choices[0].message
                if not message.tool_calls:
                    return await self.reward(message.content or "", data)
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls:
                    known = any(call.function.name == tool["function"]["name"] for tool in tools)
                    text = await self.result(session, call.function) if known else "error: unknown tool"
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            return 0.0

        return float(await self.connected(play))

    async def reward(self, answer: str, data: Mapping[str, Any]) -> float:
        """1 if the final answer is the task's label, else 0."""
        return await asyncio.to_thread(reward, answer, data)

    def offered(self, listed: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The tools in OpenAI's form. Raises ConfigError for a name that the server does not have."""
        if missing := [name for name in self.settings.tools if name not in listed]:
            text = f"the server has no {', '.join(missing)}; it has {', '.join(listed)}"
            raise ConfigError({"workflow.args.tools": text})
        chosen = [listed[name] for name in self.settings.tools or listed]
        functions = [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.inputSchema}
            for tool in chosen
        ]
        return [{"type": "function", "function": function} for function in functions]

    async def result(self, session: Any, called: Any) -> str:
        """What a tool returns, or an error that the policy can correct. Raises EnvironmentFailure if the server has failed."""
        from mcp import McpError

        try:
            values = _ARGUMENTS.validate_json(called.arguments)
        except ValueError:
            return "error: the arguments are not a JSON object"
        try:
            answer = await asyncio.wait_for(session.call_tool(called.name, values), self.settings.timeout)
        except TimeoutError:
            return f"error: no result within {self.settings.timeout:g} seconds"
        except Exception as error:
            if isinstance(error, McpError) and error.error.code != _CLOSED:
                return f"error: {error}"[: self.settings.result_characters]
            text = f"the MCP server failed in a call of {called.name}: {type(error).__name__} {error}"
            raise EnvironmentFailure(text) from error
        return ("error: " if answer.isError else "") + _text(answer)[: self.settings.result_characters]

    async def connected(self, use: Callable[[Any, list[dict[str, Any]]], Awaitable[Any]]) -> Any:
        """The result of `use`, called with a session and its tools. Raises EnvironmentFailure if there is no server, and the errors of
        `use`.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        with tempfile.TemporaryFile("w+", errors="replace") as log, tempfile.NamedTemporaryFile() as rules:
            try:
                async with (
                    asyncio.timeout(self.settings.timeout) as limit,
                    self._session(log, rules) as session,
                ):
                    listed = await _listed(session)
                    limit.reschedule(None)
                    try:  # inside, an exception would become part of a group
                        outcome.set_result(await use(session, self.offered(listed)))
                    except Exception as error:
                        outcome.set_exception(error)
                    limit.reschedule(loop.time() + self.settings.timeout)
            except Exception as error:  # of mcp; after `use`, only of the end of the session
                if not outcome.done():
                    raise self._failure(error, log) from error
        return outcome.result()

    @asynccontextmanager
    async def _session(self, log: TextIO, rules: IO[bytes]) -> AsyncIterator[Any]:
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client

        if self.settings.url:
            streams: Any = streamable_http_client(self.settings.url)
        else:
            rules.write(sandbox_filter())
            rules.flush()
            command, *args = server_command(self.settings.command, self.settings.folders, Path(rules.name))
            streams = stdio_client(StdioServerParameters(command=command, args=args), log)
        async with streams as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            yield session

    def _failure(self, error: Exception, log: TextIO) -> EnvironmentFailure:
        """The cause by the server's last line, or by the first error."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        log.seek(0)
        lines = log.read()[-2000:].strip().splitlines() or [f"{type(error).__name__} {error}".strip()]
        server = self.settings.url or " ".join(self.settings.command)
        install = "Run pip install 'troupe[mcp]'" if isinstance(error, ImportError) else "Start it"
        remedy = f"{install}, or correct workflow.args (docs/train/mcp-tools.md)"
        return EnvironmentFailure(f"the MCP server {server} does not answer: {lines[-1]}.", remedy=remedy)


def _text(answer: Any) -> str:
    """A tool's result: its texts, or its structured content where it has none."""
    parts = [_part_text(part) for part in answer.content]
    if answer.structuredContent is not None and not any(getattr(part, "text", "") for part in answer.content):
        parts.insert(0, json.dumps(answer.structuredContent, ensure_ascii=False))
    return "\n".join(filter(None, parts))


def _part_text(part: Any) -> str:
    """A text, an embedded resource's text, a link's name and address; of others, such as pictures, their kind."""
    if part.type == "resource":
        return getattr(part.resource, "text", "") or f"[resource {part.resource.uri}]"
    if part.type == "resource_link":
        return f"{part.name}: {part.uri}"
    return getattr(part, "text", f"[{part.type}]")


async def _tools(session: Any, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return tools


async def _listed(session: Any) -> dict[str, Any]:
    """All pages of the server's tools by name."""
    tools: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = await session.list_tools(cursor or None)
        tools |= {tool.name: tool for tool in page.tools}
        cursor = page.nextCursor
    return tools
