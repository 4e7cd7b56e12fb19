"""The interface of engines: prompts in, sampled answers out; and calls that continue answers, or leave prompts out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from training_core.config.team import Sampling
from training_core.errors import PromptTooLong
from training_core.importing import resolve
from training_core.llm.generation.engine_config import EngineSection
from training_core.llm.generation.registry import ENGINES
from training_core.types import Answer, GrammarSpan, Prompt

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


NO_ROOM = Answer([], [], [], "length", "")
"""The answer to a prompt that leaves no room for a token (`Answer.had_no_room`)."""


@dataclass(frozen=True)
class SamplingSettings:
    """The sampling distribution and the stop conditions."""

    temperature: float = 1.0
    top_k: int = 0
    """0 disables."""
    top_p: float = 1.0
    """1 disables."""
    max_tokens: int = 8
    greedy: bool = False
    """Select the most likely token; stored logprobs are then those of the tempered distribution."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer. The token that completes one is the answer's last; the answer's text ends before the string."""


def settings_of(sampling: Sampling) -> SamplingSettings:
    """Sampling settings of a role in training."""
    return SamplingSettings(
        sampling.temperature, sampling.top_k, sampling.top_p, sampling.max_tokens, stop=sampling.stop
    )


Generate = Callable[[Sequence[Prompt], SamplingSettings], list[list[Answer]]]
"""An engine's generate, local or remote."""

Interrupted = Callable[[], bool]
"""Called between two tokens: whether to interrupt generation."""


class Engine(Protocol):
    """Generates for one policy."""

    version: int
    """Version of the engine's weights."""

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in order. Raises EngineFailure.

        Once `interrupted` returns True, unfinished answers are returned with the stop reason "interrupt" and possibly
        no token; `continuation.py` continues them.
        """
        ...

    def load_weights(self, state: "Mapping[str, Tensor]", version: int) -> None:
        """Load new weights as `version`."""
        ...


class SleepingEngine(Engine, Protocol):
    """An engine with its own copy of the weights, which can release its device memory while it does not generate."""

    def sleep(self) -> None:
        """Release the device's memory: move the weights to the host, discard the KV cache."""
        ...

    def wake_up(self) -> None:
        """Undo `sleep`. The engine has the weights that it had before."""
        ...


def make_engine(
    section: EngineSection,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    *,
    sleeps: bool = False,
) -> Engine:
    """The engine of this config section. `sleeps`: it is a SleepingEngine, and `sleep` must release its memory."""
    options = {"sleeps": True} if sleeps else {}
    engine: Engine = resolve(f"{__name__.rpartition('.')[0]}.{ENGINES[section.type].make}")(
        section, model, tokenizer, **options
    )
    return engine


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
    ids = before.token_ids + after.token_ids
    return replace(
        after,
        token_ids=ids,
        logprobs=before.logprobs + after.logprobs,
        versions=before.versions + after.versions,
        grammars=tuple(GrammarSpan(0, len(ids), span.grammar) for span in after.grammars),
    )


def generate_until_ended(
    prompts: Sequence[Prompt], generate: Callable[[Sequence[Prompt]], list[list[Answer]]]
) -> list[list[Answer]]:
    """Call `generate` for answers, and again for the rest of interrupted ones, possibly with newer weights, until every answer
    has ended. With the same weights, the joined parts equal the answer without an interruption.
    """
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
