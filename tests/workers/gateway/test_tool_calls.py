"""Tool calls reach the agent with the types of the tools that it offered, and none makes the gateway fail."""

from typing import Any

import httpx
import pytest

from tests.workers.gateway.playing import Scripted, make_session
from workers.gateway.gateway import Gateway

PARAMETERS = {"type": "object", "properties": {"code": {"type": "string"}, "times": {"type": "integer"}}}
ASK: dict[str, Any] = {
    "model": "solver",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "say", "parameters": PARAMETERS}}],
}


def test_parameters_have_the_types_of_the_offered_tool(gateway: Gateway) -> None:
    said = "<function=say>\n<parameter=code>\n1.10\n</parameter>\n<parameter=times>\n2\n</parameter>\n</function>"
    base = gateway.open(make_session(Scripted(said)))
    message = httpx.post(f"{base}/chat/completions", json=ASK).json()["choices"][0]["message"]
    assert message["tool_calls"][0]["function"] == {
        "name": "say",
        "arguments": '{"code": "1.10", "times": 2}',
    }


@pytest.mark.parametrize("value", ['"\\ud83d"', "NaN", "[" * 4000 + "]" * 4000])
@pytest.mark.parametrize("stream", [False, True])
def test_what_json_cannot_represent_is_answered_as_text(gateway: Gateway, value: str, stream: bool) -> None:
    said = f'<tool_call>{{"name": "say", "arguments": {{"code": {value}}}}}</tool_call>'
    session = make_session(Scripted(said, "seven"))
    url = f"{gateway.open(session)}/chat/completions"
    first = httpx.post(url, json=ASK | {"stream": stream})
    assert first.status_code == 200 and (not stream or first.text.endswith("data: [DONE]\n\n"))
    history = [*ASK["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": "again"}]
    assert httpx.post(url, json=ASK | {"messages": history}).status_code == 200
    assert session.calls()[1][1].parent is not None
