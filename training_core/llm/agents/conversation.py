"""The requests and answers of one role in one episode, as a tree of calls with exact token ids.

An agent sends its whole history as text with every call. A call whose history begins with an earlier call and its
answer continues from that answer's ids: its prompt is exactly those ids plus the new tokens. An edited history
matches no answer and begins a new segment; so does one that the chat template renders differently from its beginning.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from training_core.llm.agents.messages import (
    Chat,
    Key,
    answer_messages,
    comparison_key,
    join_answer,
    normalise_message,
    transcript_messages,
)
from training_core.llm.generation.rendering import Renderer
from training_core.llm.serving.sequences import joined_answers
from training_core.types import Answer, Message

_CLOSING_TAG = re.compile(r"</[\w:.-]+>$")


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
    """Whether its client received the answers; others are not trained on, unless a later call continues them."""
    replies: list[Chat] = field(default_factory=list, repr=False)
    """The answers as messages; none for plain text."""
    text: str = field(default="", repr=False)
    """The messages as the chat template renders them."""
    history: "_History | None" = field(default=None, repr=False)
    """The messages before its answers, in the tree of histories; None for plain text."""

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
    dialogue: list[dict[str, str]]
    """What the answer consists of, if it is that of several calls or calls tools."""


@dataclass(eq=False)
class _History:
    """Messages from the start of a conversation, as a node of a tree."""

    longer: dict[Key, "_History"] = field(default_factory=dict)
    """The histories with one more message."""
    answers: list[tuple[Call, int]] = field(default_factory=list)
    """The answers, as call and choice, that are its last message."""

    @property
    def answer(self) -> tuple[Call, int] | None:
        """The answer to continue. Of equal ones: the latest call's that was received, and its first choice."""
        answers = [answer for answer in self.answers if answer[0].received] or self.answers
        return next((answer for answer in answers if answer[0] is answers[-1][0]), None)


class Conversation:
    """One role's calls in one episode."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.calls: list[Call] = []
        self._histories: dict[str, _History] = {}
        """The empty history, by the offered tools."""
        self._stops: set[str] = set()

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

        `stops` are the texts that end its answers without being part of them; agents may restore them in their histories.
        """
        self._stops.update(stop.strip() for stop in stops if stop.strip())
        tools_key = json.dumps(list(tools), sort_keys=True) if tools else ""
        messages, path = self._followed(self._histories.setdefault(tools_key, _History()), messages)
        call = Call(id, number, messages, tools_key, [], None, continues, history=path[-1 - continues][0])
        start = path[-1][0].answer if continues else None
        if start and not self.renderer.ends(start[0].answers[start[1]].token_ids):
            call.parent, call.prompt_ids, call.text = start, start[0].ids(start[1]), start[0].text
            return call
        call.text = self.renderer.render_text(messages, tools, continues=continues)
        self._continue(call, path)
        if call.parent is None:
            call.prompt_ids = self.renderer.encode(call.text)
        return call

    def start_text_call(self, ids: Sequence[int], *, number: int, id: str) -> Call:
        """A call whose prompt is plain text, outside any chat."""
        text: Chat = {"role": "user", "content": self.renderer.decode(ids)}
        return Call(id, number, [text], "", list(ids), None)

    def record_answers(self, call: Call, answers: Sequence[Answer], replies: Sequence[Chat]) -> None:
        """Record a call's answers, and the messages that the agent received."""
        call.answers = list(answers)
        self.calls.append(call)
        if call.history is None:
            return
        opening = call.messages[-1]["content"] if call.continues else ""
        for choice, message in enumerate(replies):
            reply = normalise_message(message)
            reply["content"] = opening + reply["content"]
            call.replies.append(reply)
            history = call.history.longer.setdefault(comparison_key(reply), _History())
            history.answers.append((call, choice))

    def used_choices(self) -> dict[str, list[int]]:
        """By call id, the choices to train on: those that calls continue. If there are none, all that were received."""
        continued: dict[str, set[int]] = defaultdict(set)
        for call in self.calls:
            if call.parent:
                continued[call.parent[0].id].add(call.parent[1])
        return {
            call.id: sorted(continued[call.id]) or (list(range(len(call.answers))) if call.received else [])
            for call in self.calls
        }

    def segments(self) -> list[Segment]:
        """Every answer that no call continues, with everything before it as one sequence. Each answer is trained on once,
        and unused ones never.
        """
        used = self.used_choices()
        continued = {(call.parent[0].id, call.parent[1]) for call in self.calls if call.parent}
        answers = [
            (call, choice)
            for call in sorted(self.calls, key=lambda call: call.number)
            for choice in range(len(call.answers))
        ]
        unused = {(call.id, choice) for call, choice in answers if choice not in used[call.id]}
        leaves = [(call, choice) for call, choice in answers if (call.id, choice) not in continued]
        spent, paid = set(unused), set[str]()
        segments = {  # used answers first, because the first sequence trains on shared ones
            leaf: self._segment(*leaf, spent, paid)
            for leaf in sorted(leaves, key=lambda leaf: (leaf[0].id, leaf[1]) in unused)
        }
        return [segments[leaf] for leaf in leaves]

    def _followed(
        self, start: _History, messages: Sequence[Chat]
    ) -> tuple[list[Chat], list[tuple[_History, str]]]:
        """The messages, with recorded answers in one piece, and the histories that they lead to; see `_extended`."""
        messages, path = list(messages), [(start, "")]
        while len(path) <= len(messages):
            at = len(path) - 1
            extended = self._extended(path[-1][0], messages[at])
            if messages[at]["role"] == "assistant" and not extended[0].answers:
                messages[at:] = _in_one_piece(path[-1][0], messages[at:])
                extended = self._extended(path[-1][0], messages[at])
            path.append(extended)
        return messages, path

    def _extended(self, history: _History, message: Chat) -> tuple[_History, str]:
        """A history with one more message, and what the agent has appended to the answer that the message is."""
        key = role, content, calls = comparison_key(message)
        extended = history.longer.get(key)
        if role == "assistant" and not (extended and extended.answers):
            for ending in self._endings(content):
                recorded = content.removesuffix(ending).strip()
                answered = history.longer.get((role, recorded, calls))
                if answered and answered.answers:
                    return answered, content[len(recorded) :]
        return history.longer.setdefault(key, _History()), ""

    def _endings(self, content: str) -> Iterator[str]:
        """Stop texts and the closing tag at the end of a text."""
        yield from (stop for stop in sorted(self._stops) if content.endswith(stop))
        tag = _CLOSING_TAG.search(content)
        if tag:
            yield tag[0]

    def _continue(self, call: Call, path: Sequence[tuple[_History, str]]) -> None:
        """Set a call's parent and prompt ids if it continues an answer: that of the longest of its histories in `path`."""
        for length in range(len(call.messages) - 1, 0, -1):
            history, appended = path[length]
            parent = history.answer
            answer_ids = parent and self._answer_ids(parent[0].answers[parent[1]], appended)
            if parent is None or answer_ids is None:
                continue
            rest = self.renderer.render_continuation(
                answer_ids,
                call.messages[length:],
                before=parent[0].text,
                whole=call.text,
                continues=call.continues,
            )
            if rest is not None:
                call.parent, call.prompt_ids = parent, parent[0].prompt_ids + answer_ids + rest
            return

    def _answer_ids(self, answer: Answer, appended: str) -> list[int] | None:
        """Ids of an answer, and of what its agent has appended unless it was sampled; None if the answer has ended."""
        ids, text = answer.token_ids, self.renderer.decode(answer.token_ids)
        if appended.strip() in text[len(answer.text.rstrip()) :]:
            return ids
        return None if self.renderer.ends(ids) else ids + self.renderer.encode_after(ids, appended)

    def _segment(self, leaf: Call, choice: int, spent: set[tuple[str, int]], paid: set[str]) -> Segment:
        """The sequence that ends with a choice. `spent`: choices that are not trained on again; `paid`: ids of the calls
        whose rewards are counted. Both are updated.
        """
        path = [(leaf, choice)]
        while (before := path[0][0].parent) is not None:
            path.insert(0, before)
        first = path[0][0]
        parts: list[tuple[list[int], Answer]] = []
        reward = 0.0
        for call, index in path:
            answer = call.answers[index]
            trained = (call.id, index) not in spent
            parts.append((call.prompt_ids, replace(answer, loss_mask=[trained] * len(answer.token_ids))))
            spent.add((call.id, index))
            if call.id not in paid:  # a call's reward counts once, independent of its choices
                reward += call.reward
                paid.add(call.id)
        joined = joined_answers(parts)
        text = self.renderer.decode(joined.token_ids) if len(path) > 1 else leaf.answers[choice].text
        mask = None if all(joined.loss_mask or ()) else joined.loss_mask
        joined = replace(joined, text=text, loss_mask=mask)
        calls = [call for call, _ in path]
        several = len(path) > 1 or _calls_tools(leaf, choice)
        dialogue = _dialogue(first, leaf, choice) if several else []
        prompt = transcript_messages(first.messages)
        return Segment(calls, prompt, first.prompt_ids, joined, reward, dialogue)


def _calls_tools(call: Call, choice: int) -> bool:
    return bool(call.replies) and bool(call.replies[choice].get("tool_calls"))


def _dialogue(first: Call, last: Call, choice: int) -> list[dict[str, str]]:
    """The messages of a segment behind those of its first call."""
    before = len(first.messages) - first.continues
    end = len(last.messages) - last.continues
    return answer_messages([*last.messages[before:end], *last.replies[choice : choice + 1]])


def _in_one_piece(history: _History, messages: list[Chat]) -> list[Chat]:
    """Messages that begin with an answer. If they are parts of a recorded one, with results of its calls between them:
    that answer, and the results behind it.
    """
    most = max((len(key[2]) for key, longer in history.longer.items() if longer.answers), default=0)
    parts: list[Chat] = []
    results: list[Chat] = []
    for end, message in enumerate(messages, 1):
        if message["role"] == "tool":
            results.append(message)
            continue
        parts.append(message)
        if message["role"] != "assistant" or sum(len(part.get("tool_calls") or ()) for part in parts) > most:
            break
        answer = join_answer(parts)
        recorded = history.longer.get(comparison_key(answer))
        if len(parts) > 1 and recorded and recorded.answers:
            return [answer, *results, *messages[end:]]
    return messages
