"""Continuation of interrupted answers, possibly with newer weights.

With the same weights, the joined parts equal the answer without an interruption.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from training_core.types import Answer, Prompt


def continuation_prompt(prompt: Prompt, index: int, answer: Answer) -> Prompt:
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


def join_answers(before: Answer, after: Answer) -> Answer:
    """An interrupted answer and its continuation as one; every token keeps the version that generated it."""
    return replace(
        after,
        token_ids=before.token_ids + after.token_ids,
        logprobs=before.logprobs + after.logprobs,
        versions=before.versions + after.versions,
    )


def generate_until_ended(
    prompts: Sequence[Prompt], generate: Callable[[Sequence[Prompt]], list[list[Answer]]]
) -> list[list[Answer]]:
    """Call `generate` for answers, and again for the rest of interrupted ones, until every answer has ended."""
    answers = generate(prompts)
    while unfinished := _interrupted(answers):
        rest = generate(
            [
                continuation_prompt(prompts[number], index, answers[number][index])
                for number, index in unfinished
            ]
        )
        for (number, index), (after,) in zip(unfinished, rest, strict=True):
            answers[number][index] = join_answers(answers[number][index], after)
    return answers


def _interrupted(answers: Sequence[Sequence[Answer]]) -> list[tuple[int, int]]:
    """(index of the prompt, index in its group) of unfinished answers."""
    return [
        (number, index)
        for number, group in enumerate(answers)
        for index, answer in enumerate(group)
        if answer.stop_reason == "interrupt"
    ]
