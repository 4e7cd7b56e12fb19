"""Results of workflows, padded tensors or interactions, as sequences of tokens.

B sequences, S padded length.
"""

from collections.abc import Iterator, Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from training_core.errors import EnvironmentFailure
from training_core.llm.rollout_workflows.api import EpisodeResult, Interaction, ModelResponse, Trajectory
from training_core.llm.serving.sequences import TokenSequence, join_calls
from training_core.types import NOT_SAMPLED, Answer

REQUIRED_KEYS = ("input_ids", "attention_mask", "loss_mask", "logprobs", "rewards")


def concat_padded_tensors(parts: Sequence[Trajectory], pad: float = 0.0) -> Trajectory:
    """One batch of all sequences, padded on the right to the longest; attention_mask is 0 on padding.

    Tensors of one dimension (B,) are concatenated. Raises ValueError if parts have different keys.
    """
    if not parts:
        return {}
    keys = parts[0].keys()
    if any(part.keys() != keys for part in parts):
        raise ValueError(
            f"trajectories have different keys: {sorted({key for part in parts for key in part})}"
        )
    width = max(part["attention_mask"].shape[1] for part in parts)
    return {
        key: torch.cat([_padded(part[key], width, 0 if key == "attention_mask" else pad) for part in parts])
        for key in keys
    }


def _padded(tensor: Tensor, width: int, pad: float) -> Tensor:
    if tensor.dim() < 2 or tensor.shape[1] == width:
        return tensor
    return torch.nn.functional.pad(tensor, (0, width - tensor.shape[1]), value=pad)


def sequences_of_tensors(trajectory: Trajectory, version: int) -> Iterator[TokenSequence]:
    """The sequences of a trajectory; a prompt ends before the first trained token.

    `version` applies to tokens without versions. Raises EnvironmentFailure, which names missing keys.
    """
    missing = [key for key in REQUIRED_KEYS if key not in trajectory]
    if missing:
        raise EnvironmentFailure(f"arun_episode returned tensors without {', '.join(missing)}")
    for row, reward in enumerate(trajectory["rewards"].flatten().tolist()):
        attended = trajectory["attention_mask"][row].bool()
        ids = trajectory["input_ids"][row][attended].tolist()
        mask = trajectory["loss_mask"][row][attended].bool().tolist()
        logprobs = trajectory["logprobs"][row][attended].tolist()
        versions = _versions(trajectory, row, attended, mask, version)
        start = mask.index(True) if True in mask else len(ids)
        if start == 0:
            raise EnvironmentFailure(
                "arun_episode returned a sequence without a prompt: its first token is trained on",
                remedy="set its loss_mask to 0",
            )
        rest = slice(start, None)
        answer = Answer(ids[rest], logprobs[rest], versions[rest], "stop", "", mask[rest])
        yield TokenSequence(ids[:start], answer, reward)


def _versions(
    trajectory: Trajectory, row: int, attended: Tensor, mask: list[bool], version: int
) -> list[int]:
    if "versions" in trajectory:
        return [int(number) for number in trajectory["versions"][row][attended].tolist()]
    return [version if learnt else NOT_SAMPLED for learnt in mask]


def is_tensors(result: EpisodeResult) -> TypeGuard[Trajectory]:
    """Whether a result is padded tensors, not interactions."""
    return isinstance(result, dict) and all(isinstance(value, Tensor) for value in result.values())


def token_sequences_of(result: EpisodeResult, version: int, *, by_call: bool = False) -> list[TokenSequence]:
    """All sequences of an episode's result; none for a rejected one.

    Interactions are joined into sequences, or with `by_call` one each. Raises EnvironmentFailure for a result of
    another form.
    """
    if result is None:
        return []
    if is_tensors(result):
        return list(sequences_of_tensors(result, version))
    interactions = list(result.values()) if hasattr(result, "values") else list(result)
    if not all(isinstance(interaction, Interaction) for interaction in interactions):
        raise EnvironmentFailure(
            "arun_episode must return tensors, interactions, or None for a rejected episode"
        )
    calls = [
        _call(interaction.response, interaction.reward, interaction.role) for interaction in interactions
    ]
    return calls if by_call else list(join_calls(calls))


def sequences_from_responses(
    row: TokenSequence, responses: Sequence[tuple[str, ModelResponse]], role: str
) -> list[TokenSequence]:
    """A result's row rebuilt from its calls, if it trains on exactly their answers to one role.

    Several sequences if a call's prompt does not continue the previous text: each then has its sampled prompt, and
    the last one has the reward. A row that trains on something else is unchanged.
    """
    sampled = [token for _, response in responses for token in response.output_tokens]
    if sampled != row.answer.learnt(row.answer.token_ids) or {speaker for speaker, _ in responses} != {role}:
        return [row]
    *previous, last = join_calls(_call(response, 0.0, role) for _, response in responses)
    return [*previous, last._replace(reward=row.reward)]


def _call(response: ModelResponse, reward: float, role: str) -> TokenSequence:
    ids = list(response.output_tokens)
    answer = Answer(
        ids,
        list(response.output_logprobs),
        list(response.output_versions),
        response.stop_reason,
        "",
        [True] * len(ids),
    )
    return TokenSequence(list(response.input_tokens), answer, reward, role)
