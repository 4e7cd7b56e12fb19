"""The requests and answers of one role in one episode, as a tree of calls with exact token ids.

An agent sends its whole history as text with every call. A call whose history begins with an earlier call and its
answer continues from that answer's ids: its prompt is exactly those ids plus the new tokens. An edited history
matches no answer and begins a new segment.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    ) -> Call:
        """A call with its prompt's ids; `messages` are plain. Raises RequestRefused."""
        tools_key = json.dumps(list(tools), sort_keys=True) if tools else ""
        keys = [comparison_key(message) for message in messages]
        open_answer = self._choices_by_history.get((tools_key, *keys)) if continues else None
        if open_answer and not self._ended(open_answer):
            call, choice = open_answer
            return Call(id, number, list(messages), tools_key, call.ids(choice), open_answer, continues)
        parent, matched = self._match(tools_key, keys)
        if parent is None:
            ids = self.renderer.render_conversation(messages, tools, continues=continues)
        else:
            call, choice = parent
            answer_ids = call.answers[choice].token_ids
            ids = call.ids(choice) + self.renderer.render_continuation(
                answer_ids, messages[matched:], continues=continues
            )
        return Call(id, number, list(messages), tools_key, ids, parent, continues)

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
        for choice, message in enumerate(replies):
            reply = normalise_message(message)
            reply["content"] = opening + reply["content"]
            self._choices_by_history[(call.tools, *keys, comparison_key(reply))] = (call, choice)

    def segments(self) -> list[Segment]:
        """Every answer that no call continues, with everything before it as one sequence; each answer is trained on once."""
        continued = {(call.parent[0].id, call.parent[1]) for call in self.calls if call.parent}
        trained: set[tuple[str, int]] = set()
        return [
            self._segment(call, choice, trained)
            for call in sorted(self.calls, key=lambda call: call.number)
            for choice in range(len(call.answers))
            if (call.id, choice) not in continued
        ]

    def _match(self, tools_key: str, keys: Sequence[Key]) -> tuple[tuple[Call, int] | None, int]:
        """The answer that ends the longest matching prefix of a history, and the number of messages in the prefix."""
        for length in range(len(keys) - 1, 0, -1):
            match = self._choices_by_history.get((tools_key, *keys[:length]))
            if match is not None:
                return match, length
        return None, 0

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
            fresh = (call.id, index) not in trained
            mask += [False] * len(gap) + [fresh] * len(answer.token_ids)
            trained.add((call.id, index))
            if fresh and index == 0:  # a call's reward counts once, independent of its choices
                reward += call.reward
            new.append(call)
        last = leaf.answers[choice]
        text = last.text if len(path) == 1 else self.renderer.decode(ids)
        joined = Answer(ids, logprobs, versions, last.stop_reason, text, None if all(mask) else mask)
        return Segment(new, transcript_messages(first.messages), first.prompt_ids, joined, reward)
