"""An assistant on the real stack, by the official MCP client: it launches a run with a fault, finds the cause, and shows the remedy.

It follows the order of work of docs/use/assistants/SKILL.md, connected by the configurations of docs/use/assistants.md.
"""

import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from tests.docs.fences import fences
from tests.end_to_end.running_stack import ROOT, RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400), pytest.mark.extended]
MOST_CALLS, MOST_TOKENS, CHARACTERS_PER_TOKEN = 10, 20_000, 4
RATE = "policies.walker.learner.learning_rate"
SMALL = {
    "run.iterations": 12,
    "evaluation.every": 6,
    "evaluation.episodes": 64,
    "rollout.tasks": 48,
    "checkpoint.every": 1,
}
"""The preset with fewer tasks: success from 0.4 to 0.9."""


def configurations(stack: RunningStack) -> Iterator[dict[str, Any]]:
    """The entries of the page's JSON blocks, with the address and the token of the stack."""
    for fence in fences("docs/use/assistants.md"):
        if fence.language == "json":
            text = re.sub(r"\bTOKEN\b", stack.token, fence.text.replace("http://127.0.0.1:8000", stack.url))
            (servers,) = json.loads(text).values()
            yield servers["troupe"]


@asynccontextmanager
async def over_http(stack: RunningStack) -> AsyncIterator[ClientSession]:
    cursor, code, _ = configurations(stack)
    assert code == cursor | {"type": "http"}
    async with (
        httpx.AsyncClient(headers=cursor["headers"], timeout=120.0, trust_env=False) as client,
        streamable_http_client(cursor["url"], http_client=client) as (receiving, sending, _),
        ClientSession(receiving, sending) as session,
    ):
        yield session


@asynccontextmanager
async def over_stdio(stack: RunningStack) -> AsyncIterator[ClientSession]:
    *_, desktop = configurations(stack)
    command = StdioServerParameters(
        command=str(Path(sys.executable).with_name("troupe")),
        args=desktop["args"],
        env=desktop["env"] | {"PYTHONPATH": str(ROOT)},
        cwd=tempfile.gettempdir(),
    )
    async with (
        stdio_client(command) as (receiving, sending),
        ClientSession(receiving, sending) as session,
    ):
        yield session


class Assistant:
    """Calls tools, and counts the calls and the characters of answers."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.calls: list[str] = []
        self.characters = 0
        self.repeated = 0
        """Number of calls that only waited once more, because the machine is busy."""

    async def call(self, tool: str, **arguments: Any) -> str:
        answer = await self._session.call_tool(tool, arguments)
        (content,) = answer.content
        assert isinstance(content, TextContent) and not answer.isError, content
        self.calls.append(tool)
        self.characters += len(content.text)
        print(f"--- {tool} {json.dumps(arguments)}: {len(content.text)} characters\n{content.text}")
        return content.text

    async def run(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return dict(json.loads(await self.call(tool, **arguments)))

    async def until(self, run: str, happened: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Watch a run until something has happened."""
        seen = await self.run("watch", run=run, seconds=45)
        while not happened(seen):
            assert seen["state"] not in ("finished", "failed", "stopped"), seen
            self.repeated += 1
            seen = await self.run("watch", run=run, seconds=45)
        return seen


@pytest.mark.parametrize("transport", [over_http, over_stdio])
async def test_an_assistant_finds_a_fault_and_shows_that_its_remedy_helps(
    shared_stack: RunningStack, transport: Any
) -> None:
    async with transport(shared_stack) as session:
        await session.initialize()
        assistant = Assistant(session)
        assert "plan_path_single (" in await assistant.call("presets", find="plan_path_single")
        faulty = (await assistant.run("launch", preset="plan_path_single", overrides=SMALL | {RATE: 0.1}))[
            "id"
        ]
        await assistant.until(faulty, lambda run: sum(run.get("findings", {}).values()) >= 2)
        findings = [json.loads(line) for line in (await assistant.call("findings", run=faulty)).splitlines()]
        assert any("ower the learning rate" in finding["remedy"] for finding in findings)
        query = {"kind": "train", "query": "iteration >= 4", "limit": 5, "characters": 120}
        spoken = await assistant.call("transcripts", run=faulty, **query)
        assert '"stop_reason":"length"' in spoken, "the answers have lost their end"
        await assistant.call("stop", run=faulty)
        mended = (await assistant.run("launch", preset="plan_path_single", overrides=SMALL | {RATE: 1e-3}))[
            "id"
        ]
        await assistant.until(mended, lambda run: run["state"] == "finished")
        compared = await assistant.call("compare", runs=[faulty, mended], metric="eval/success")
    success = {
        row["runs"][0]: row["mean"] for row in map(json.loads, re.findall("^{.*", compared, re.MULTILINE))
    }
    assert success[mended] > success[faulty] + 0.2
    assert f"{RATE}: [0.1] | [0.001]" in compared
    print(f"{len(assistant.calls)} calls, {assistant.characters} characters")
    assert len(assistant.calls) - assistant.repeated <= MOST_CALLS
    assert assistant.characters / CHARACTERS_PER_TOKEN <= MOST_TOKENS
