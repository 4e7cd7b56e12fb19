"""Join calls whose prompts continue each other into one sequence under a loss mask. Plain lists, no tensors."""

from collections.abc import Iterable, Iterator, Sequence

from training_core.llm.rollout_workflows.api import Interaction, ModelResponse
from training_core.types import NOT_SAMPLED, Answer

TokenSequence = tuple[list[int], Answer, float, str]
"""Prompt ids, the rest of the sequence, reward, role ("" for the first)."""


def sequences_from_responses(
    row: TokenSequence, responses: Sequence[tuple[str, ModelResponse]], role: str
) -> list[TokenSequence]:
    """A result's row rebuilt from its calls, if it trains on exactly their answers to one role.

    Several sequences if a call's prompt does not continue the previous text: each then has its sampled prompt, and
    the last one has the reward. A row that trains on something else is unchanged.
    """
    _, answer, reward, _ = row
    sampled = [token for _, response in responses for token in response.output_tokens]
    if sampled != answer.learnt(answer.token_ids) or {speaker for speaker, _ in responses} != {role}:
        return [row]
    interactions = [Interaction(response, 0.0, role) for _, response in responses]
    *previous, (prompt, last, _, _) = join_interactions(interactions)
    return [*previous, (prompt, last, reward, role)]


def join_interactions(interactions: Iterable[Interaction]) -> Iterator[TokenSequence]:
    """Interactions joined; see `joined_calls`."""
    return join_calls(call_sequence(interaction) for interaction in interactions)


def call_sequence(interaction: Interaction) -> TokenSequence:
    """One call: its prompt, answer and reward."""
    response, ids = interaction.response, list(interaction.response.output_tokens)
    answer = Answer(
        ids,
        list(response.output_logprobs),
        list(response.output_versions),
        response.stop_reason,
        "",
        [True] * len(ids),
    )
    return list(response.input_tokens), answer, interaction.reward, interaction.role


def join_calls(calls: Iterable[TokenSequence]) -> Iterator[TokenSequence]:
    """Each series of calls by one role whose prompts continue each other, with the sum of their rewards.

    A call whose prompt does not begin with the whole previous text starts a new sequence. Answers have loss masks.
    """
    open_: dict[str, TokenSequence] = {}
    for prompt, sampled, reward, role in calls:
        previous = open_.get(role)
        if previous is not None:
            first, answer, reward_so_far, _ = previous
            text = first + answer.token_ids
            if prompt[: len(text)] == text:
                open_[role] = (
                    first,
                    _append_call(answer, prompt[len(text) :], sampled),
                    reward_so_far + reward,
                    role,
                )
                continue
            yield previous
        open_[role] = (prompt, sampled, reward, role)
    yield from open_.values()


def _append_call(answer: Answer, between: list[int], following: Answer) -> Answer:
    """An answer, unsampled text, and the next answer, joined."""
    unsampled = len(between)
    return Answer(
        answer.token_ids + between + following.token_ids,
        answer.logprobs + [0.0] * unsampled + following.logprobs,
        answer.versions + [NOT_SAMPLED] * unsampled + following.versions,
        following.stop_reason,
        "",
        [*(answer.loss_mask or []), *[False] * unsampled, *(following.loss_mask or [])],
    )
