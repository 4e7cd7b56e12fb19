"""Conversations that grow by tokens: what was sampled stays as it was, what comes next is put behind it.

Rendering a conversation again from its text may tokenise an answer otherwise than it was sampled (AReaL's guide does so and
can break the prefix); here the prompt of a turn begins with the very ids of the turn before, prompt and answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training_core.config.rollout import MultiTurn
from training_core.config.run import RunConfig
from training_core.errors import ModelError
from training_core.llm.environments.host import SlotView
from training_core.types import Answer, Message

_ANY: Message = {"role": "user", "content": "x"}
Render = Callable[[Sequence[Message]], list[int]]


@dataclass(frozen=True)
class _Talk:
    """What one role saw and said in one slot so far."""

    messages: list[Message]
    ids: list[int]


class Conversations:
    """The talks of one play: by slot and role."""

    def __init__(self, feedback: str) -> None:
        self._feedback = feedback
        self._talks: dict[tuple[int, str], _Talk] = {}
        self._bridges: dict[tuple[int, str], list[int]] = {}

    def prompt(
        self, slot: int, role: str, opening: list[Message], view: SlotView, render: Render
    ) -> tuple[list[Message], list[int]]:
        """What the role sees now, as messages and as ids: its opening, or its talk so far with what is told next behind it."""
        talk = self._talks.get((slot, role))
        if talk is None:
            return opening, render(opening)
        told = self._feedback or view.observation
        bridge = self._bridge(told, render)
        if talk.ids[-1] == bridge[0]:  # the answer ended by itself, with the token that ends a message
            bridge = bridge[1:]
        return [*talk.messages, {"role": "user", "content": told}], talk.ids + bridge

    def said(
        self, slot: int, role: str, messages: list[Message], prompt: Sequence[int], answer: Answer
    ) -> None:
        """Note the answer that goes on."""
        spoken: Message = {"role": "assistant", "content": answer.text}
        self._talks[slot, role] = _Talk([*messages, spoken], [*prompt, *answer.token_ids])

    def _bridge(self, told: str, render: Render) -> list[int]:
        """What the chat template puts between an answer and the next one. Raises ModelError where it rewrites what was before."""
        key = (id(render), told)
        if key not in self._bridges:
            before = render([_ANY])
            after = render([_ANY, {"role": "assistant", "content": ""}, {"role": "user", "content": told}])
            if after[: len(before)] != before or len(after) <= len(before):
                raise ModelError(
                    "the model's chat template renders a conversation otherwise once it goes on, so that nothing can be put "
                    'behind it; use workflow.type = "episodes", which renders every turn by itself'
                )
            self._bridges[key] = after[len(before) :]
        return self._bridges[key]


def conversations(config: RunConfig) -> Conversations | None:
    """New ones for a play, where the config's workflow has them."""
    workflow = config.workflow
    return Conversations(workflow.feedback) if isinstance(workflow, MultiTurn) else None
