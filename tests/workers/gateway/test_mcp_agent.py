"""The agent with tools of a real MCP server, over both transports, with a scripted policy behind the real gateway."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.workers.gateway.playing import TOKENIZER, Scripted, make_session
from tests.workers.gateway.tool_model import tool_model
from tests.workers.running import curve
from training_core.config.files import load_config
from training_core.config.rollout import Agent
from training_core.errors import ConfigError, EnvironmentFailure
from training_core.llm.agents.mcp_tools import McpAgent
from training_core.llm.workflows.agent import check_workflow
from workers.driver.attempt import run_attempt
from workers.gateway.gateway import Gateway
from workers.protocol import Attempt

pytest.importorskip("mcp")
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

FILE = Path(__file__).with_name("mcp_server.py")
LOCAL: dict[str, Any] = {"command": ["python", str(FILE)], "folders": [str(FILE.parent)]}
TASK = {"title": "sum", "label": "5", "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
NEEDS_SANDBOX = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def answers(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def http() -> Iterator[dict[str, Any]]:
    """The server over HTTP, in a process of its own without a sandbox."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, FILE, str(port)])
    try:
        deadline = time.monotonic() + 60
        while not answers(port) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=[pytest.param("stdio", marks=NEEDS_SANDBOX), "http"])
def args(request: pytest.FixtureRequest, http: dict[str, Any]) -> dict[str, Any]:
    return LOCAL if request.param == "stdio" else http


def played(gateway: Gateway, args: dict[str, Any], *answers: str) -> tuple[float, list[str]]:
    """The reward, and what the policy has seen of its tools."""
    policy = Scripted(*answers)
    session = make_session(policy)

    async def play() -> float:
        async with AsyncOpenAI(base_url=gateway.open(session), api_key=session.key, max_retries=0) as client:
            return await McpAgent(**args).run(TASK, client=client)

    reward = asyncio.run(play())
    seen = TOKENIZER.decode(policy.prompts[-1].token_ids).split("<tool_response>\n")[1:]
    return reward, [part.partition("\n</tool_response>")[0] for part in seen]


def test_the_policy_sees_results_and_errors_of_the_tools(gateway: Gateway, args: dict[str, Any]) -> None:
    answers = call("add", a=2, b=3), call("add", a=2), call("picture"), "It is 5."
    reward, (total, wrong, picture) = played(gateway, args, *answers)
    assert (reward, total) == (1.0, "5")
    assert wrong.startswith("error: Error executing tool add") and picture == "here\n[image]"


@pytest.mark.extended
def test_a_call_is_limited_in_time_and_a_result_in_length(gateway: Gateway, http: dict[str, Any]) -> None:
    limits = {"timeout": 5.0, "result_characters": 3}
    _, seen = played(gateway, http | limits, call("wait", seconds=60), call("note", text="abcdef"), "5")
    assert seen == ["error: no result within 5 seconds", "abc"]


@NEEDS_SANDBOX
def test_a_local_server_is_an_episodes_own_and_reaches_nothing(gateway: Gateway, tmp_path: Path) -> None:
    for _ in range(2):
        looks = call("note", text="a"), call("surroundings", path=str(tmp_path)), "5"
        _, (noted, reached) = played(gateway, LOCAL, *looks)
        assert noted == "a"
        assert reached == "PermissionError False ['HOME', 'LC_CTYPE', 'PATH', 'PWD']"


@NEEDS_SANDBOX
def test_a_server_that_ends_fails_the_episode(gateway: Gateway) -> None:
    with pytest.raises(EnvironmentFailure, match="the MCP server failed in a call of end"):
        played(gateway, LOCAL, call("end"), "5")
    with pytest.raises(EnvironmentFailure, match="the MCP server"):
        played(gateway, LOCAL, call("leave"), *[call("wait", seconds=0.3)] * 2, "5")


def test_arguments_that_cannot_be_sent_are_the_policys_error(http: dict[str, Any], gateway: Gateway) -> None:
    """A server's session survives them."""
    texts = '{"text": "\\ud800"}', "[" * 50_000, "[1]", "{"
    agent = McpAgent(**http)

    async def results(session: Any, tools: Any) -> list[str]:
        called = [SimpleNamespace(name="note", arguments=text) for text in (*texts, '{"text": "x"}')]
        return [await agent.result(session, one) for one in called]

    *wrong, right = asyncio.run(agent.connected(results))
    assert wrong == ["error: the arguments are not a JSON object"] * 4 and right.endswith("x")


def test_a_tool_that_is_not_offered_is_not_called(gateway: Gateway, http: dict[str, Any]) -> None:
    """The call is the text of the final answer."""
    assert played(gateway, http | {"tools": ["add"]}, call("look")) == (0.0, [])


LINK = ResourceLink(type="resource_link", name="map", uri="file:///map.txt")  # type: ignore[arg-type]
FILE_TEXT = TextResourceContents(uri="file:///a.txt", text="north")  # type: ignore[arg-type]
BYTES = BlobResourceContents(uri="file:///a.bin", blob="AA==")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "structured", "error", "text"),
    [
        ([], {"goal": "città"}, False, '{"goal": "città"}'),
        ([], {"code": 4}, True, 'error: {"code": 4}'),
        ([TextContent(type="text", text="x")], {"goal": "x"}, False, "x"),
        ([EmbeddedResource(type="resource", resource=FILE_TEXT), LINK], None, False, "north\nmap: file:///map.txt"),
        ([EmbeddedResource(type="resource", resource=BYTES)], {"a": 1}, False, '{"a": 1}\n[resource file:///a.bin]'),
        ([], None, False, ""),
    ],
)  # fmt: skip
def test_the_policy_sees_every_kind_of_result(
    content: list[Any], structured: Any, error: bool, text: str
) -> None:
    class Server:
        async def call_tool(self, name: str, values: Any) -> CallToolResult:
            return CallToolResult(content=content, structuredContent=structured, isError=error)

    called = SimpleNamespace(name="look", arguments="{}")
    assert asyncio.run(McpAgent(url="http://127.0.0.1:9/mcp").result(Server(), called)) == text


TOOLS = ["add", "note", "look", "wait", "picture", "end", "surroundings", "leave"]


def offered(args: dict[str, Any]) -> list[str]:
    async def names(session: Any, tools: list[dict[str, Any]]) -> list[str]:
        return [tool["function"]["name"] for tool in tools]

    return list(asyncio.run(McpAgent(**args).connected(names)))


def test_only_the_named_tools_are_offered(http: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """A session writes nothing to the run's log."""
    caplog.set_level("INFO")
    assert offered(http) == TOOLS
    assert not [record for record in caplog.records if record.name.startswith("mcp")]
    assert offered(http | {"tools": ["note", "add"]}) == ["note", "add"]


@NEEDS_SANDBOX
def test_all_pages_of_a_list_are_read() -> None:
    assert offered(LOCAL | {"command": [*LOCAL["command"], "pages"]}) == TOOLS


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ({}, ConfigError, r"workflow\.args\.command: either command and folders, or url"),
        ({"url": "desk"}, ConfigError, r"workflow\.args\.url: "),
        (
            {"url": "http://127.0.0.1:9/mcp"},
            EnvironmentFailure,
            "http://127.0.0.1:9/mcp does not answer: Con",
        ),
        pytest.param(
            LOCAL | {"command": ["no-such-program"]},
            EnvironmentFailure,
            "no-such-program does not answer: .*not found",
            marks=NEEDS_SANDBOX,
        ),
        pytest.param(
            {"command": ["sleep", "60"], "timeout": 1.0},
            EnvironmentFailure,
            "TimeoutError",
            marks=[NEEDS_SANDBOX, pytest.mark.extended],
        ),
        pytest.param(
            LOCAL | {"command": [*LOCAL["command"], "hangs"], "timeout": 4.0},
            EnvironmentFailure,
            "does not answer",
            marks=[NEEDS_SANDBOX, pytest.mark.extended],
        ),
        ({"command": ["python"], "folders": ["tools"]}, ConfigError, r"workflow\.args\.folders"),
    ],
)
def test_a_server_that_does_not_answer_is_named_before_the_run(
    args: dict[str, Any], error: type[Exception], text: str
) -> None:
    path = "training_core.llm.agents.mcp_tools:McpAgent"
    with pytest.raises(error, match=text):
        check_workflow(Agent(type="agent", path=path, args=args))


class Finds(McpAgent):
    """Right is the direction of the task, after one call at most."""

    async def reward(self, answer: str, data: Any) -> float:
        return float(data["answer"] in answer)


@pytest.mark.extended
def test_a_run_learns_with_tools_of_a_server(http: dict[str, Any], tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({"prompt": f"goal {n}", "answer": "north"}) for n in range(40)))
    policy = {"model": str(tool_model(tmp_path / "model")), "learner": {"learning_rate": 0.01}}
    settings: dict[str, Any] = {
        "environment.type": "dataset",
        "environment.path": str(lines),
        "policies": {"solver": policy},
        "team.roles": {"solver": {"policy": "solver", "sampling": {"max_tokens": 2}}},
        "workflow.type": "agent",
        "workflow.path": f"{__name__}:Finds",
        "workflow.args": http | {"calls": 2},
        "rollout.tasks": 4,
        "rollout.group_size": 8,
        "run.iterations": 8,
        "evaluation.every": 0,
        "checkpoint.every": 0,
    }
    config = load_config("plan_path_duo", settings)
    assert run_attempt(Attempt(config, "run", 1, tmp_path / "run", tmp_path), local=True) == 0
    values = curve(tmp_path / "run")
    assert not any(values["rollout/failed", step] for step in range(1, 9))
    returns = [values["train/return", step] for step in range(1, 9)]
    assert sum(returns[-3:]) > sum(returns[:3]) + 0.3, returns
