"""Another API is a Dialect and a line in the registry: its calls are recorded, its documents, events and errors are its own."""

from collections.abc import Sequence

import httpx
import pytest
from pydantic import Field

from tests.workers.gateway.playing import Scripted, make_gateway, make_session
from training_core.llm.agents.session import Session
from workers.gateway.answering import Answered, Asked, Batcher, Dialect, answer_texts, event
from workers.gateway.app import DIALECTS


class Shout(Asked):
    text: str = Field(min_length=1)


async def answer(session: Session, asked: Shout, batcher: Batcher) -> list[Answered]:
    return await answer_texts(session, asked, [asked.text], batcher)


def document(parts: Sequence[Answered], asked: Shout) -> dict[str, str]:
    return {"loud": parts[0].call.answers[0].text.upper()}


SHOUTED = Dialect(
    Shout,
    answer,
    document,
    events=lambda parts, asked: [event(document(parts, asked))],
    error=lambda message, code, status: {"wrong": message},
)


def test_a_registered_dialect_is_answered_in_its_own_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DIALECTS, "/v1/shouts", SHOUTED)
    gateway = make_gateway()
    try:
        session = make_session(Scripted("seven", "four"))
        url = f"{gateway.open(session)}/shouts"
        whole, stream, refused, unknown = (
            httpx.post(place, json=body, trust_env=False)
            for place, body in (
                (url, {"text": "three", "mood": "loud"}),
                (url, {"text": "plus", "stream": True}),
                (url, {"text": ""}),
                (url.replace(session.key, "ep-other"), {"text": "three"}),
            )
        )
    finally:
        gateway.close()
    assert whole.json() == {"loud": "SEVEN"} and whole.headers["x-troupe-ignored"] == "mood"
    assert stream.text == 'data: {"loud":"FOUR"}\n\n'
    assert (refused.status_code, unknown.status_code) == (400, 401)
    assert refused.json()["wrong"].startswith("text: ") and "no open episode" in unknown.json()["wrong"]
    assert [call.answers[0].text for _, call in session.calls()] == ["seven", "four"]
