"""Continuation of interrupted answers, possibly with newer weights.

With the same weights, the joined parts equal the answer without an interruption.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from training_core.types import Answer, Prompt


def resumed(prompt: Prompt, index: int, answer: Answer) -> Prompt:
    """The prompt for the rest of answer `index` of `prompt`; it includes the tokens so far.

    max_tokens is unchanged: the tokens so far count.
    """
    return replace(
        prompt,
        token_ids=[*prompt.token_ids, *answer.token_ids],
        count=1,
        first=prompt.first + index,
        offset=prompt.offset + len(answer.token_ids),
    )


def joined(before: Answer, after: Answer) -> Answer:
    """An interrupted answer and its continuation as one; every token keeps the version that generated it."""
    return replace(
        after,
        token_ids=before.token_ids + after.token_ids,
        logprobs=before.logprobs + after.logprobs,
        versions=before.versions + after.versions,
    )


def until_ended(
    prompts: Sequence[Prompt], say: Callable[[Sequence[Prompt]], list[list[Answer]]]
) -> list[list[Answer]]:
    """Call `say` for answers, and again for the rest of interrupted ones, until every answer has ended."""
    answers = say(prompts)
    while places := _interrupted(answers):
        rest = say([resumed(prompts[place], index, answers[place][index]) for place, index in places])
        for (place, index), (after,) in zip(places, rest, strict=True):
            answers[place][index] = joined(answers[place][index], after)
    return answers


def _interrupted(answers: Sequence[Sequence[Answer]]) -> list[tuple[int, int]]:
    """(index of the prompt, index in its group) of unfinished answers."""
    return [
        (place, index)
        for place, group in enumerate(answers)
        for index, answer in enumerate(group)
        if answer.stop_reason == "interrupt"
    ]
