"""One forward pass of the learner: rows as tensors, with the loss's inputs per response token.

T trained response tokens, concatenated in the order of the rows' answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.algorithms.registry import Algorithm
from training_core.errors import LearnerFailure
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.learning.packing import Row, micro_batches, rows_work, single_rows, tree_rows
from training_core.llm.learning.token_logprobs import RowBatch, collate
from training_core.llm.models.flops import Work
from training_core.llm.models.packed_attention import MULTIPLE
from training_core.types import Answer, Group

Floats = NDArray[np.float32]
LONGEST_ROW = 4096
"""Maximum tokens of a packed row with an explicit mask (one response may exceed it), because the mask grows quadratically."""


@dataclass
class MicroBatch:
    """Rows whose answers were sampled with the same settings."""

    batch: RowBatch
    answers: list[tuple[Group, int]]
    """(group, index of the answer in it)"""
    lengths: Tensor
    """(R,) trained tokens of each answer."""
    behaviour_logprobs: Tensor
    """(T,) at sampling time."""
    advantages: Tensor
    """(T,)"""
    weights: Tensor
    """(T,) weight of each token in the minibatch's loss; they sum to 1 over its micro-batches."""
    temperature: float
    top_k: int
    top_p: float
    work: Work
    """FLOPs of one forward pass."""
    reference_logprobs: Tensor | None = field(default=None)
    """(T,) of the base model, cached after the first pass."""
    idle: bool = False
    """Computed only because other processes run a collective pass; it does not contribute to the loss."""
    proximal_logprobs: Tensor | None = field(default=None)
    """(T,) of the policy at the start of the update, if the algorithm needs them."""
    costs: Tensor | None = field(default=None)
    """(T,) KL penalty subtracted from the tokens' rewards, if configured."""
    old_values: Tensor | None = field(default=None)
    """(T,) of the critic at the start of the update, if there is one."""
    returns: Tensor | None = field(default=None)
    """(T,) the critic's targets: advantage + value."""


@dataclass(frozen=True)
class MicroBatchOptions:
    """How a minibatch is divided into micro-batches."""

    settings: Optimisation
    algorithm: Algorithm
    packed: bool
    pad: int
    device: torch.device
    blocks: bool = False
    """Whether packed rows use FlexAttention."""
    linear: bool = False
    """Whether the memory of packed rows' attention is linear in their length."""

    @property
    def longest(self) -> int:
        """Maximum tokens of a packed row."""
        limit = self.settings.micro_batch_tokens
        return limit if self.linear else min(limit, LONGEST_ROW)


def make_micro_batches(
    part: Sequence[int],
    groups: Sequence[Group],
    options: MicroBatchOptions,
    share: Sequence[int] | None = None,
) -> Iterator[MicroBatch]:
    """The micro-batches of a minibatch of these groups; with `share`, only of the groups listed there, weighted as in
    the whole minibatch. Raises LearnerFailure if their numbers are not finite.
    """
    by_sampling: dict[tuple[float, int, float], list[int]] = {}
    for index in part if share is None else share:
        group = groups[index]
        by_sampling.setdefault((group.temperature, group.top_k, group.top_p), []).append(index)
    answers = [answer for index in part for answer in groups[index].answers]
    per_token = options.algorithm.loss_average == "token"
    scale = 1.0 / max(sum(answer.trained_tokens for answer in answers) if per_token else len(answers), 1)
    limit = options.settings.micro_batch_tokens
    for members in by_sampling.values():
        rows = tree_rows(groups, members, options.longest) if options.packed else single_rows(groups, members)
        for batch_rows in micro_batches(rows, limit):
            yield _micro_batch(batch_rows, groups, options, scale)


def _micro_batch(
    rows: Sequence[Row], groups: Sequence[Group], options: MicroBatchOptions, scale: float
) -> MicroBatch:
    members = [(groups[group], index) for row in rows for group, index in row.answers]
    answers = [group.answers[index] for group, index in members]
    behaviour = np.array(
        [logprob for answer in answers for logprob in answer.learnt(answer.logprobs)], dtype=np.float32
    )
    advantages = np.array([group.advantages[index] for group, index in members], dtype=np.float32)
    _check(members, answers, advantages, behaviour)
    counts = np.array([answer.trained_tokens for answer in answers])
    first = members[0][0]

    def per_token(values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.repeat(values.astype(np.float32), counts)).to(options.device)

    return MicroBatch(
        batch=collate(
            rows,
            options.pad,
            packed=options.packed,
            device=options.device,
            multiple=MULTIPLE if options.packed and options.blocks else 1,
        ),
        answers=members,
        lengths=torch.from_numpy(counts).to(options.device),
        behaviour_logprobs=torch.from_numpy(behaviour).to(options.device),
        advantages=per_token(advantages),
        weights=per_token(scale / _loss_divisors(members, counts, options.algorithm.loss_average)),
        temperature=first.temperature,
        top_k=first.top_k,
        top_p=first.top_p,
        work=rows_work(rows),
    )


def _loss_divisors(
    members: Sequence[tuple[Group, int]], counts: NDArray[np.int64], average: str
) -> NDArray[np.int64]:
    """(R,) divisor of each token's part in the loss, per response."""
    if average == "sequence":
        return counts.clip(min=1)
    if average == "constant":
        return np.array([group.max_tokens for group, _ in members])
    return np.ones_like(counts)


def _check(
    members: Sequence[tuple[Group, int]],
    answers: Sequence[Answer],
    advantages: Floats,
    behaviour: Floats,
) -> None:
    if np.isfinite(advantages).all() and np.isfinite(behaviour).all():
        return
    for (group, _), advantage, answer in zip(members, advantages, answers, strict=True):
        if not (np.isfinite(advantage) and np.isfinite(answer.logprobs).all()):
            raise LearnerFailure(
                f"episode {group.episode}, turn {group.turn}: an advantage or a sampled token's logprob is not "
                "finite; check the environment's rewards and a custom algorithm's advantages (they must be finite)"
            )
