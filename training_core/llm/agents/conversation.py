"""The requests and answers of one role in one episode, as a tree of calls with exact token ids.

An agent sends its whole history as text with every call. A call whose history begins with an earlier call and its
answer continues from that answer's ids: its prompt is exactly those ids plus the new tokens. An edited history
matches no answer and begins a new segment; so does one that the chat template cannot continue.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from training_core.llm.agents.messages import (
    Chat,
    Key,
    comparison_key,
    normalise_message,
    transcript_messages,
)
from training_core.llm.agents.rendering import Renderer
from training_core.types import NOT_SAMPLED, Answer, Message

_CLOSING_TAG = re.compile(r"\s*</[\w-]+>\s*$")


@dataclass(eq=False)
class Call:
    """One request and its answers."""

    id: str
    number: int
    """Index among the episode's calls."""
    messages: list[Chat]
    tools: str
    """The offered tools, as JSON."""
    prompt_ids: list[int]
    parent: "tuple[Call, int] | None"
    """The call and the choice whose ids the prompt begins with; None at the start of a segment."""
    continues: bool = False
    """Whether the last message is the start of the answer."""
    answers: list[Answer] = field(default_factory=list)
    started: float = 0.0
    ended: float = 0.0
    reward: float = 0.0
    received: bool = True
    """Whether the agent received the answers: nothing is learnt from those that it gave up on."""

    def ids(self, choice: int) -> list[int]:
        """Token ids of the prompt and an answer."""
        return self.prompt_ids + self.answers[choice].token_ids


@dataclass(frozen=True)
class Segment:
    """A series of calls that forms one sequence of tokens."""

    calls: list[Call]
    messages: list[Message]
    """Messages of the first call."""
    prompt_ids: list[int]
    answer: Answer
    """Everything after the prompt: answers, and the text between them under a loss mask."""
    reward: float
    """Sum of the rewards of the calls that are trained on here."""


class Conversation:
    """One role's calls in one episode."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.calls: list[Call] = []
        self._choices_by_history: dict[tuple[Any, ...], tuple[Call, int]] = {}
        """(tools, keys of the messages and the answer) -> the answer."""

    def start_call(
        self,
        messages: Sequence[Chat],
        tools: Sequence[Any] | None,
        *,
        number: int,
        id: str,
        continues: bool = False,
        stops: Sequence[str] = (),
    ) -> Call:
        """A call with its prompt's ids; `messages` are plain. Raises RequestRefused.

        stops: texts that end an answer and are no part of it; an agent may restore them in its history.
        """
        tools_key = json.dumps(list(tools), sort_keys=True) if tools else ""
        keys = [comparison_key(message) for message in messages]
        open_answer = self._choices_by_history.get((tools_key, *keys)) if continues else None
        if open_answer and not self._ended(open_answer):
            call, choice = open_answer
            return Call(id, number, list(messages), tools_key, call.ids(choice), open_answer, continues)
        for length, parent, restored in self._matches(tools_key, keys, messages, stops):
            call, choice = parent
            start = call.ids(choice) + self._unsampled(call.answers[choice], restored)
            rest = self.renderer.render_continuation(
                start, messages[: length - 1], messages[length:], tools, continues=continues
            )
            if rest is not None:
                return Call(id, number, list(messages), tools_key, start + rest, parent, continues)
        ids = self.renderer.render_conversation(messages, tools, continues=continues)
        return Call(id, number, list(messages), tools_key, ids, None, continues)

    def start_text_call(self, ids: Sequence[int], *, number: int, id: str) -> Call:
        """A call whose prompt is plain text, outside any chat."""
        text: Chat = {"role": "user", "content": self.renderer.decode(ids)}
        return Call(id, number, [text], "", list(ids), None)

    def record_answers(
        self, call: Call, answers: Sequence[Answer], replies: Sequence[Chat], *, chat: bool = True
    ) -> None:
        """Record a call's answers, and the messages that the agent received."""
        call.answers = list(answers)
        self.calls.append(call)
        if not chat:
            return
        before = call.messages[:-1] if call.continues else call.messages
        opening = call.messages[-1]["content"] if call.continues else ""
        keys = [comparison_key(message) for message in before]
        for choice, message in reversed(list(enumerate(replies))):  # of equal ones the first is continued
            reply = normalise_message(message)
            reply["content"] = opening + reply["content"]
            self._choices_by_history[(call.tools, *keys, comparison_key(reply))] = (call, choice)

    def unused(self, call: Call, choice: int) -> bool:
        """Whether nobody used an answer: the agent did not receive it, or continued from another choice of the call.

        Of several choices that no later call continues, the first counts as used.
        """
        continued = {later.parent[1] for later in self.calls if later.parent and later.parent[0] is call}
        return not call.received or choice not in (continued or {0})

    def learnt_answer(self, call: Call, choice: int) -> Answer:
        """An answer, all of it under the loss mask if nobody used it."""
        answer = call.answers[choice]
        return (
            replace(answer, loss_mask=[False] * len(answer.token_ids))
            if self.unused(call, choice)
            else answer
        )

    def segments(self) -> list[Segment]:
        """Every answer that no call continues, with everything before it as one sequence; each answer is trained on once,
        unless nobody used it.
        """
        continued = {(call.parent[0].id, call.parent[1]) for call in self.calls if call.parent}
        leaves = [
            (call, choice)
            for call in sorted(self.calls, key=lambda call: call.number)
            for choice in range(len(call.answers))
            if (call.id, choice) not in continued
        ]
        trained: set[tuple[str, int]] = set()
        by_use = sorted(
            leaves, key=lambda leaf: self.unused(*leaf)
        )  # what leads to both is trained on with the used one
        segments = {(call.id, choice): self._segment(call, choice, trained) for call, choice in by_use}
        return [segments[call.id, choice] for call, choice in leaves]

    def _matches(
        self, tools_key: str, keys: Sequence[Key], messages: Sequence[Chat], stops: Sequence[str]
    ) -> Iterator[tuple[int, tuple[Call, int], str]]:
        """Answers that end a prefix of a history, the longest prefix first: its length, the answer, and the text that the
        agent has appended to it, a stop text or a closing tag.
        """
        for length in range(len(keys) - 1, 0, -1):
            content = messages[length - 1]["content"]
            tag = _CLOSING_TAG.search(content)
            for restored in ("", *filter(content.endswith, filter(None, stops)), *([tag[0]] if tag else [])):
                key = keys[length - 1]
                if restored:
                    shorter = {**messages[length - 1], "content": content.removesuffix(restored)}
                    key = comparison_key(shorter)
                match = self._choices_by_history.get((tools_key, *keys[: length - 1], key))
                if match is not None:
                    yield length, match, restored

    def _unsampled(self, answer: Answer, restored: str) -> list[int]:
        """Ids of what an agent has appended to an answer; none if they were sampled, as a stop text's are."""
        ids = answer.token_ids
        text = self.renderer.decode(ids[:-1] if self.renderer.ends(ids) else ids)
        sampled = text.rstrip().endswith(restored.strip())
        return [] if sampled else self.renderer.encode_after(text, restored)

    def _ended(self, answer: tuple[Call, int]) -> bool:
        call, choice = answer
        return self.renderer.ends(call.answers[choice].token_ids)

    def _segment(self, leaf: Call, choice: int, trained: set[tuple[str, int]]) -> Segment:
        path = [(leaf, choice)]
        while (before := path[0][0].parent) is not None:
            path.insert(0, before)
        first = path[0][0]
        ids: list[int] = []
        logprobs: list[float] = []
        versions: list[int] = []
        mask: list[bool] = []
        reward, new = 0.0, []
        for call, index in path:
            answer = call.answers[index]
            gap = call.prompt_ids[len(first.prompt_ids) + len(ids) :]
            ids += gap + answer.token_ids
            logprobs += [0.0] * len(gap) + answer.logprobs
            versions += [NOT_SAMPLED] * len(gap) + answer.versions
            fresh = (call.id, index) not in trained and not self.unused(call, index)
            mask += [False] * len(gap) + [fresh] * len(answer.token_ids)
            if fresh:
                trained.add((call.id, index))
                reward += call.reward
            new.append(call)
        last = leaf.answers[choice]
        text = last.text if len(path) == 1 else self.renderer.decode(ids)
        joined = Answer(ids, logprobs, versions, last.stop_reason, text, None if all(mask) else mask)
        return Segment(new, transcript_messages(first.messages), first.prompt_ids, joined, reward)
