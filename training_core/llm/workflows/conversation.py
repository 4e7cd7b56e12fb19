"""Conversations that grow by tokens: sampled tokens never change, and new ones are appended.

Rendering a conversation again from its text can tokenise an answer differently from how it was sampled (AReaL's guide
does this and can break the prefix). Here the prompt of a turn begins with exactly the ids of the previous turn's
prompt and answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from training_core.config.rollout import MultiTurn
from training_core.config.run import RunConfig
from training_core.llm.environments.host import SlotView
from training_core.types import Answer, Message


class Render(Protocol):
    """Chat messages -> prompt token ids, with the generation prompt."""

    def __call__(self, messages: Sequence[Message], spoken: Sequence[int] = ()) -> list[int]:
        """`spoken`: the ids of the messages up to the last but one, an answer; the prompt begins with them exactly.

        Raises ModelError if the chat template cannot continue them.
        """
        ...


@dataclass(frozen=True)
class _ConversationState:
    """One role's conversation in one slot so far."""

    messages: list[Message]
    ids: list[int]


class Conversations:
    """The conversations of one play, by slot and role."""

    def __init__(self, feedback: str) -> None:
        self._feedback = feedback
        self._states: dict[tuple[int, str], _ConversationState] = {}

    def prompt(
        self, slot: int, role: str, opening_messages: list[Message], view: SlotView, render: Render
    ) -> tuple[list[Message], list[int]]:
        """The role's current prompt, as messages and as ids: its opening, or its conversation so far with the next message appended."""
        state = self._states.get((slot, role))
        if state is None:
            return opening_messages, render(opening_messages)
        next_message: Message = {"role": "user", "content": self._feedback or view.observation}
        messages = [*state.messages, next_message]
        return messages, render(messages, state.ids)

    def record_answer(
        self, slot: int, role: str, messages: list[Message], prompt: Sequence[int], answer: Answer
    ) -> None:
        """Record the answer that is continued."""
        message: Message = {"role": "assistant", "content": answer.text}
        self._states[slot, role] = _ConversationState([*messages, message], [*prompt, *answer.token_ids])


def make_conversations(config: RunConfig) -> Conversations | None:
    """New conversations for a play, if the config's workflow uses them."""
    workflow = config.workflow
    return Conversations(workflow.feedback) if isinstance(workflow, MultiTurn) else None
