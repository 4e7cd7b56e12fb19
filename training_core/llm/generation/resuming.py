"""Going on with an answer that was interrupted, perhaps under newer weights.

Under the same weights the parts together are what the answer would have been without the interruption.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from training_core.types import Answer, Prompt


def resumed(prompt: Prompt, index: int, answer: Answer) -> Prompt:
    """The prompt for the rest of the answer that came `index`-th of `prompt`: what has been said is part of it.

    max_tokens stays what it was: what has been said counts.
    """
    return replace(
        prompt,
        token_ids=[*prompt.token_ids, *answer.token_ids],
        count=1,
        first=prompt.first + index,
        offset=prompt.offset + len(answer.token_ids),
    )


def joined(before: Answer, after: Answer) -> Answer:
    """An interrupted answer and its continuation as one; every token keeps the version that said it."""
    return replace(
        after,
        token_ids=before.token_ids + after.token_ids,
        logprobs=before.logprobs + after.logprobs,
        versions=before.versions + after.versions,
    )


def until_ended(
    prompts: Sequence[Prompt], say: Callable[[Sequence[Prompt]], list[list[Answer]]]
) -> list[list[Answer]]:
    """Ask `say` for answers, and again for the rest of those that were interrupted, until every answer has ended."""
    answers = say(prompts)
    while places := _interrupted(answers):
        rest = say([resumed(prompts[place], index, answers[place][index]) for place, index in places])
        for (place, index), (after,) in zip(places, rest, strict=True):
            answers[place][index] = joined(answers[place][index], after)
    return answers


def _interrupted(answers: Sequence[Sequence[Answer]]) -> list[tuple[int, int]]:
    """(place of the prompt, index in its group) of the answers that have not ended."""
    return [
        (place, index)
        for place, group in enumerate(answers)
        for index, answer in enumerate(group)
        if answer.stop_reason == "interrupt"
    ]
