"""Rendered prompts are kept for reuse, the latest ones."""

import pytest

from tests.workers.gateway.playing import TOKENIZER
from training_core.types import Message
from workers.actors import player


def test_kept_prompts_are_bounded_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    render_chat = TOKENIZER.apply_chat_template
    monkeypatch.setattr(player, "CACHED_TOKENS", 60)
    monkeypatch.setattr(
        TOKENIZER,
        "apply_chat_template",
        lambda *args, **more: (calls.append(1), render_chat(*args, **more))[1],
    )
    render = player.renderer(TOKENIZER)
    prompts = [[Message(role="user", content=f"three plus {number}")] for number in range(9)]
    first = [render(prompt) for prompt in prompts]
    assert sum(map(len, first)) > 2 * 60
    assert render(prompts[-1]) == first[-1] and len(calls) == 9
    assert render(prompts[0]) == first[0] and len(calls) == 10
