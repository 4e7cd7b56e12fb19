"""Sequences of tokens that are trained on: calls whose prompts continue each other, joined under a loss mask.

What a policy sampled is never encoded again: the text between two answers is the part of a prompt after the text before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from training_core.llm.generation.stop_words import decode_texts
from training_core.types import NOT_SAMPLED, Answer, Candidate, Episode, GrammarSpan, Message, Stage, Turn
from training_core.versions import version_span


class TokenSequence(NamedTuple):
    """A prompt and what follows it, of one role."""

    prompt: list[int]
    answer: Answer
    """The rest of the sequence: sampled tokens, and text between them under the loss mask."""
    reward: float = 0.0
    role: str = ""
    """Empty for the team's first role."""


def joined_answers(calls: Sequence[tuple[Sequence[int], Answer]]) -> Answer:
    """The rest of a sequence after the first prompt; each call is a prompt, which begins with the whole text before it, and
    its answer. Text between answers is not trained on. Without logprobs of the calls the result has none.
    """
    start = len(calls[0][0])
    with_logprobs = all(answer.logprobs or not answer.token_ids for _, answer in calls)
    ids: list[int] = []
    logprobs: list[float] = []
    versions: list[int] = []
    mask: list[bool] = []
    grammars: list[GrammarSpan] = []
    for prompt, answer in calls:
        between = prompt[start + len(ids) :]
        begin = len(ids) + len(between)
        grammars += [GrammarSpan(begin + first, begin + end, text) for first, end, text in answer.grammars]
        ids += [*between, *answer.token_ids]
        logprobs += [*([0.0] * len(between) if with_logprobs else ()), *answer.logprobs]
        versions += [*[NOT_SAMPLED] * len(between), *answer.versions]
        mask += [*[False] * len(between), *(answer.loss_mask or [True] * len(answer.token_ids))]
    return Answer(ids, logprobs, versions, calls[-1][1].stop_reason, "", mask, tuple(grammars))


def join_calls(calls: Iterable[TokenSequence]) -> Iterator[TokenSequence]:
    """Each series of calls by one role whose prompts continue each other, with the sum of their rewards.

    A call whose prompt does not begin with the whole previous text starts a new sequence. Answers have loss masks.
    """
    open_: dict[str, list[TokenSequence]] = {}
    for call in calls:
        series = open_.setdefault(call.role, [])
        if series:
            before = series[-1].prompt + series[-1].answer.token_ids
            if call.prompt[: len(before)] != before:
                yield _joined(series)
                open_[call.role] = series = []
        series.append(call)
    yield from map(_joined, open_.values())


def _joined(series: Sequence[TokenSequence]) -> TokenSequence:
    answer = joined_answers([(call.prompt, call.answer) for call in series])
    reward = sum(call.reward for call in series)
    return TokenSequence(series[0].prompt, answer, reward, series[0].role)


def add_turn(
    episode: Episode, sequence: TokenSequence, policy: str, tokenizer: Any, weight: float
) -> Candidate:
    """Add a sequence to an episode as a turn, whose message is its decoded prompt; return its candidate. `weight` is that of
    the team's reward.
    """
    prompt, answer, reward, role = sequence
    (text,) = decode_texts(tokenizer, [answer.token_ids])
    seen: Message = {"role": "user", "content": str(tokenizer.decode(prompt, skip_special_tokens=True))}
    candidate = Candidate(replace(answer, text=text), 0.0, reward, weight * reward)
    episode.turns.append(Turn(len(episode.turns), role, policy, [seen], prompt, [candidate], 0))
    span = version_span(answer.versions) if answer.logprobs else None
    episode.stages.append(Stage("generate", episode.started, episode.ended, role, policy, span))
    return candidate
