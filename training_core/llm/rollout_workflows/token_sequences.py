"""Join calls whose prompts continue each other into one sequence under a loss mask. Plain lists, no tensors."""

from collections.abc import Iterable, Iterator, Sequence

from training_core.llm.rollout_workflows.api import Interaction, ModelResponse
from training_core.types import NOT_SAMPLED, Answer

Stretch = tuple[list[int], Answer, float, str]
"""Prompt ids, the rest of the sequence, reward, role ("" for the first)."""


def as_heard(row: Stretch, heard: Sequence[tuple[str, ModelResponse]], role: str) -> list[Stretch]:
    """A result's row rebuilt from its calls, if it trains on exactly their answers to one role.

    Several sequences if a call's prompt does not continue the previous text: each then has its sampled prompt, and
    the last one has the reward. A row that trains on something else is unchanged.
    """
    _, answer, reward, _ = row
    said = [token for _, response in heard for token in response.output_tokens]
    if said != answer.learnt(answer.token_ids) or {speaker for speaker, _ in heard} != {role}:
        return [row]
    interactions = [Interaction(response, 0.0, role) for _, response in heard]
    *before, (prompt, last, _, _) = sequence_of(interactions)
    return [*before, (prompt, last, reward, role)]


def sequence_of(interactions: Iterable[Interaction]) -> Iterator[Stretch]:
    """Interactions joined; see `joined_calls`."""
    return joined_calls(call_of(each) for each in interactions)


def call_of(each: Interaction) -> Stretch:
    """One call: its prompt, answer and reward."""
    said, ids = each.response, list(each.response.output_tokens)
    answer = Answer(
        ids, list(said.output_logprobs), list(said.output_versions), said.stop_reason, "", [True] * len(ids)
    )
    return list(said.input_tokens), answer, each.reward, each.role


def joined_calls(calls: Iterable[Stretch]) -> Iterator[Stretch]:
    """Each series of calls by one role whose prompts continue each other, with the sum of their rewards.

    A call whose prompt does not begin with the whole previous text starts a new sequence. Answers have loss masks.
    """
    open_: dict[str, Stretch] = {}
    for prompt, said, reward, role in calls:
        before = open_.get(role)
        if before is not None:
            first, answer, earned, _ = before
            known = first + answer.token_ids
            if prompt[: len(known)] == known:
                open_[role] = (first, _appended(answer, prompt[len(known) :], said), earned + reward, role)
                continue
            yield before
        open_[role] = (prompt, said, reward, role)
    yield from open_.values()


def _appended(answer: Answer, between: list[int], said: Answer) -> Answer:
    """An answer, unsampled text, and the next answer, joined."""
    quiet = len(between)
    return Answer(
        answer.token_ids + between + said.token_ids,
        answer.logprobs + [0.0] * quiet + said.logprobs,
        answer.versions + [NOT_SAMPLED] * quiet + said.versions,
        said.stop_reason,
        "",
        [*(answer.loss_mask or []), *[False] * quiet, *(said.loss_mask or [])],
    )
