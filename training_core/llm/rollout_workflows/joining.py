"""Calls whose prompts continue one another, as one sequence under a loss mask. Plain lists, no tensors."""

from collections.abc import Iterable, Iterator, Sequence

from training_core.llm.rollout_workflows.api import Interaction, ModelResponse
from training_core.types import NOT_SAMPLED, Answer

Stretch = tuple[list[int], Answer, float, str]
"""Prompt ids, what follows them, reward, role ("" for the first)."""


def as_heard(row: Stretch, heard: Sequence[tuple[str, ModelResponse]], role: str) -> list[Stretch]:
    """The row of a result by the calls that were made for it, where it trains on exactly what they answered to one role.

    Several stretches where a call's prompt is not what was said before: each then has the prompt that was sampled from. The last
    one has the reward. A row that trains on something else stays as it is.
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
    """One call: its prompt, its answer and its own reward."""
    said, ids = each.response, list(each.response.output_tokens)
    answer = Answer(
        ids, list(said.output_logprobs), list(said.output_versions), said.stop_reason, "", [True] * len(ids)
    )
    return list(said.input_tokens), answer, each.reward, each.role


def joined_calls(calls: Iterable[Stretch]) -> Iterator[Stretch]:
    """Each stretch of calls by one role whose prompts continue one another, with the sum of their rewards.

    A call whose prompt does not begin with all that was said before begins a new stretch. Answers have loss masks.
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
    """An answer, text that nobody sampled, and the next answer, as one."""
    quiet = len(between)
    return Answer(
        answer.token_ids + between + said.token_ids,
        answer.logprobs + [0.0] * quiet + said.logprobs,
        answer.versions + [NOT_SAMPLED] * quiet + said.versions,
        said.stop_reason,
        "",
        [*(answer.loss_mask or []), *[False] * quiet, *(said.loss_mask or [])],
    )
