"""Going on with an answer that was interrupted, perhaps under newer weights.

Under the same weights the parts together are what the answer would have been without the interruption.
"""

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
