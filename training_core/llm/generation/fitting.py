"""Generation for prompts of which some may leave no room for an answer in the model's context."""

from collections.abc import Callable, Sequence

from training_core.errors import PromptTooLong
from training_core.types import Answer, Prompt

NO_ROOM = Answer([], [], [], "length", "")
"""The answer to a prompt that leaves no room for a token (`Answer.had_no_room`)."""


def generate_fitting(
    prompts: Sequence[Prompt], generate: Callable[[Sequence[Prompt]], list[list[Answer]]]
) -> list[list[Answer]]:
    """Call `generate` for answers. Prompts that leave no room for one get `NO_ROOM`, so the others of the call are answered."""
    try:
        return generate(prompts)
    except PromptTooLong as error:
        too_long = set(error.numbers)
    fitting = [prompt for number, prompt in enumerate(prompts) if number not in too_long]
    answers = iter(generate(fitting) if fitting else [])
    return [
        [NO_ROOM] * prompt.count if number in too_long else next(answers)
        for number, prompt in enumerate(prompts)
    ]
