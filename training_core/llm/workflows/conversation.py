"""Conversations that grow by tokens: sampled tokens never change, and new ones are appended.

Rendering a conversation again from its text can tokenise an answer differently from how it was sampled (AReaL's guide
does this and can break the prefix). Here the prompt of a turn begins with exactly the ids of the previous turn's
prompt and answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from training_core.config.rollout import MultiTurn
from training_core.config.run import RunConfig
from training_core.errors import ModelError
from training_core.llm.environments.host import SlotView
from training_core.types import Answer, Message

_ANY_MESSAGE: Message = {"role": "user", "content": "x"}
Render = Callable[[Sequence[Message]], list[int]]


@dataclass(frozen=True)
class _ConversationState:
    """One role's conversation in one slot so far."""

    messages: list[Message]
    ids: list[int]
    ended: bool
    """Whether the last answer ended by itself, not at its limit."""


class Conversations:
    """The conversations of one play, by slot and role."""

    def __init__(self, feedback: str) -> None:
        self._feedback = feedback
        self._states: dict[tuple[int, str], _ConversationState] = {}
        self._bridges: dict[tuple[int, str], list[int]] = {}

    def prompt(
        self, slot: int, role: str, opening_messages: list[Message], view: SlotView, render: Render
    ) -> tuple[list[Message], list[int]]:
        """The role's current prompt, as messages and as ids: its opening, or its conversation so far with the next message appended."""
        state = self._states.get((slot, role))
        if state is None:
            return opening_messages, render(opening_messages)
        text = self._feedback or view.observation
        bridge = self._bridge(text, render)
        if state.ended:
            bridge = self._without_end_token(state.ids[-1], bridge, render)
        return [*state.messages, {"role": "user", "content": text}], state.ids + bridge

    def record_answer(
        self, slot: int, role: str, messages: list[Message], prompt: Sequence[int], answer: Answer
    ) -> None:
        """Record the answer that is continued."""
        message: Message = {"role": "assistant", "content": answer.text}
        ids = [*prompt, *answer.token_ids]
        self._states[slot, role] = _ConversationState([*messages, message], ids, answer.stop_reason == "stop")

    def _without_end_token(self, last: int, bridge: list[int], render: Render) -> list[int]:
        """What follows the end-of-turn token in a bridge, if the answer contains that token itself.

        The token is in what the bridges of all texts begin with; a template may write a space or a newline before it.
        """
        other = self._bridge(_ANY_MESSAGE["content"], render)
        common = [
            one for one, two in takewhile(lambda pair: pair[0] == pair[1], zip(bridge, other, strict=False))
        ]
        return bridge[common.index(last) + 1 :] if last in common else bridge

    def _bridge(self, text: str, render: Render) -> list[int]:
        """The tokens that the chat template writes between an answer and the next one. Raises ModelError if it rewrites earlier text."""
        key = (id(render), text)
        if key not in self._bridges:
            before = render([_ANY_MESSAGE])
            after = render(
                [_ANY_MESSAGE, {"role": "assistant", "content": ""}, {"role": "user", "content": text}]
            )
            if after[: len(before)] != before or len(after) <= len(before):
                raise ModelError(
                    "the model's chat template changes earlier text when a conversation continues, so nothing can be "
                    'appended; use workflow.type = "episodes", which renders every turn separately'
                )
            self._bridges[key] = after[len(before) :]
        return self._bridges[key]


def make_conversations(config: RunConfig) -> Conversations | None:
    """New conversations for a play, if the config's workflow uses them."""
    workflow = config.workflow
    return Conversations(workflow.feedback) if isinstance(workflow, MultiTurn) else None
