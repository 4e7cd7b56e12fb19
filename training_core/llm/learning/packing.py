"""From groups to the learner's forward passes: minibatches, packed rows, and rows as tensors.

In a packed row [prompt, tree of responses] a response's token sees the prompt and the tokens before it in its own
response only, and positions continue from the prompt's, so every logprob equals the unpacked one. Responses with a
common prefix share its places, and groups with the same prompt share a row: nothing is computed twice. The last token
of a response predicts nothing and has no place.

A conversation, in which each prompt continues the previous turn, is one sequence for the same reason: a prompt that
begins with another group's prompt is split into that prompt and a response, of which only the answer is trained on.
The same applies to prompts with a long common prefix, such as a system prompt with examples. Turns remain separate
groups with their own advantages, lengths and annotations; the loss is that of separate rows.

Places are in preorder, so one number per place determines which places see it: place j is seen by j, j + 1, ...,
ends[j] - 1.

B rows, S padded length, T trained response tokens (concatenated in the order of the rows' answers), U distinct places
that predict them, R answers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.algorithms.registry import Algorithm
from training_core.errors import LearnerFailure
from training_core.llm.generation.grammars import Grammars, answer_masks
from training_core.llm.generation.prefix_cache import shared_prefixes
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.models.flops import Work, forward_flops
from training_core.llm.models.packed_attention import row_width
from training_core.llm.models.shape import ModelShape
from training_core.llm.models.transfers import to_device
from training_core.seeding import keyed_uniform
from training_core.types import Answer, Group

Tokens = tuple[int, ...]
Response = tuple[Tokens, tuple[bool, ...]]
"""Token ids, and which of them are trained on; empty for all."""
AnswerIndex = tuple[int, int]
"""(group, index of an answer in it)"""
Responses = list[tuple[Response, list[AnswerIndex]]]
"""Distinct responses to a prompt, in lexicographic order, with their answers."""


@dataclass
class Row:
    """One row of a batch."""

    tokens: list[int]
    positions: list[int]
    ends: list[int]
    """Per place: the first later place that does not see it."""
    answers: list[AnswerIndex] = field(default_factory=list)
    """Answers whose responses are in this row, in the order of `sources` and `targets`."""
    sources: list[int] = field(default_factory=list)
    """Per trained response token: the place whose logits predict it."""
    targets: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class RowBatch:
    """Rows as tensors, padded on the right."""

    token_ids: Tensor
    """(B, S)"""
    positions: Tensor
    """(B, S)"""
    ends: Tensor
    """(B, S) see the module docstring; padding sees, and is seen by, only itself."""
    lengths: Tensor
    """(B,)"""
    packed: bool
    nodes: Tensor
    """(U,) places that predict a token, as indices into B * S."""
    node_indices: Tensor
    """(T,) index of the node that predicts each response token."""
    targets: Tensor
    """(T,) the token itself."""
    node_numbers: NDArray[np.int64]
    """(T,) node_indices, on the host."""

    def chosen(self, log_probs: Tensor) -> Tensor:
        """The entries (T,) of the response tokens in (U, V)."""
        return log_probs[self.node_indices, self.targets]

    def predicting(self, states: Tensor) -> Tensor:
        """The entries (U, ...) of (B, S, ...) at the places that predict a token."""
        return states.flatten(0, 1).index_select(0, self.nodes)


@dataclass(frozen=True)
class GrammarMask:
    """The tokens that grammars allowed where M of the T response tokens were sampled."""

    rows: Tensor
    """(T,) index of each response token's row in `allowed`; -1 without a grammar."""
    allowed: Tensor
    """(M, V)"""


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
    flops: float
    """Of one forward pass; 0 for an architecture with unknown FLOPs."""
    reference_logprobs: Tensor | None = None
    """(T,) of the base model, cached after the first pass."""
    grammar: GrammarMask | None = None
    """What grammars allowed, if an answer was sampled under one."""
    idle: bool = False
    """Computed only because other processes run a collective pass; it does not contribute to the loss."""
    proximal_logprobs: Tensor | None = None
    """(T,) of the policy at the start of the update, if the algorithm needs them."""
    costs: Tensor | None = None
    """(T,) KL penalty subtracted from the tokens' rewards, if configured."""
    old_values: Tensor | None = None
    """(T,) of the critic at the start of the update, if there is one."""
    returns: Tensor | None = None
    """(T,) the critic's targets: advantage + value."""

    @property
    def truncated(self) -> bool:
        """Whether sampling was truncated by top-k or top-p."""
        return self.top_k > 0 or self.top_p < 1.0


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
    shape: ModelShape | None = None
    """Sizes of the model, if its FLOPs are known."""
    grammars: Callable[[], Grammars] | None = None
    """Makes the grammars of the policy's tokenizer, where an answer needs them."""

    @property
    def longest(self) -> int:
        """Maximum tokens of a packed row."""
        limit = self.settings.pass_tokens
        return limit if self.linear else min(limit, LONGEST_ROW)


_PASS_TOKENS = 256
"""Padding that costs no more than a separate pass does, in tokens of a small model."""
_MAX_ROW_PREFIXES = 8
"""Maximum length of a row of several prompts, in lengths of their common prefix."""
_MAX_PADDING_SHARE = 0.1
"""Share of padding above which a batch is closed."""
LONGEST_ROW = 4096
"""Maximum tokens of a packed row with an explicit mask (one response may exceed it), because the mask grows quadratically."""


def minibatches(groups: Sequence[Group], count: int, iteration: int) -> list[list[int]]:
    """Group indices of at most `count` minibatches, assigned by key, with a conversation's groups together; the same in every epoch."""
    members = conversations(groups, range(len(groups)))
    parts = min(count, len(members))
    if parts > 1:
        members.sort(key=lambda indices: keyed_uniform(iteration, indices[0]))
    return [[index for indices in members[part::parts] for index in indices] for part in range(parts)]


def own_share(part: Sequence[int], groups: Sequence[Group], rank: int, size: int) -> list[int]:
    """Process `rank`'s groups of a minibatch (indices of `groups`), in their order, with a conversation's groups together.

    The largest remaining group goes to the process with the fewest tokens: all `size` processes compute the same
    assignment without communication.
    """
    if size == 1:
        return list(part)
    loads, assigned = [0] * size, set()
    members = [
        (max(group_tokens(groups[index]) for index in indices), indices)
        for indices in conversations(groups, part)
    ]
    for tokens, indices in sorted(members, key=lambda item: (-item[0], item[1][0])):
        smallest = loads.index(min(loads))
        loads[smallest] += tokens
        if smallest == rank:
            assigned.update(indices)
    return [index for index in part if index in assigned]


def group_tokens(group: Group) -> int:
    """The number of tokens of a group: its prompt and all its answers."""
    return len(group.prompt_ids) + sum(len(answer.token_ids) for answer in group.answers)


def conversations(groups: Sequence[Group], which: Iterable[int]) -> list[list[int]]:
    """`which` of the groups in their order, grouping those of one episode whose prompts continue each other."""
    ordered: list[list[int]] = []
    by_episode: dict[str, dict[Tokens, list[int]]] = {}
    """By episode and its newest prompt."""
    for index in which:
        prompt = tuple(groups[index].prompt_ids)
        newest = by_episode.setdefault(groups[index].episode, {})
        before = next(
            (earlier for earlier in newest if prompt != earlier and prompt[: len(earlier)] == earlier), None
        )
        if before is None:
            ordered.append([])
        indices = ordered[-1] if before is None else newest.pop(before)
        indices.append(index)
        newest[prompt] = indices
    return ordered


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
    limit = options.settings.pass_tokens
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
    if not (np.isfinite(advantages).all() and np.isfinite(behaviour).all()):
        _check_numbers(members, advantages)
    counts = np.array([answer.trained_tokens for answer in answers])
    first = members[0][0]

    def per_token(values: NDArray[Any]) -> Tensor:
        return to_device(np.repeat(values.astype(np.float32), counts), options.device)

    return MicroBatch(
        batch=collate(
            rows,
            options.pad,
            packed=options.packed,
            device=options.device,
            blocks=options.packed and options.blocks,
        ),
        answers=members,
        lengths=to_device(counts, options.device),
        behaviour_logprobs=to_device(behaviour, options.device),
        advantages=per_token(advantages),
        weights=per_token(scale / _loss_divisors(members, counts, options.algorithm.loss_average)),
        temperature=first.temperature,
        top_k=first.top_k,
        top_p=first.top_p,
        flops=forward_flops(options.shape, rows_work(rows)) if options.shape else 0.0,
        grammar=_grammar_mask(answers, options),
    )


def _grammar_mask(answers: Sequence[Answer], options: MicroBatchOptions) -> GrammarMask | None:
    """What grammars allowed at the trained tokens of these answers. Raises EngineFailure if an answer does not follow its grammar."""
    if options.grammars is None or not any(answer.grammars for answer in answers):
        return None
    grammars = options.grammars()
    masks = [answer_masks(answer, grammars) for answer in answers]
    constrained = [
        np.full(answer.trained_tokens, mask is not None) for answer, mask in zip(answers, masks, strict=True)
    ]
    flags = np.concatenate(constrained)
    rows = np.where(flags, flags.cumsum() - 1, -1)
    allowed = np.concatenate([mask for mask in masks if mask is not None])
    return GrammarMask(to_device(rows, options.device), to_device(allowed, options.device))


def _loss_divisors(
    members: Sequence[tuple[Group, int]], counts: NDArray[np.int64], average: str
) -> NDArray[np.int64]:
    """(R,) divisor of each token's part in the loss, per response."""
    if average == "sequence":
        return counts.clip(min=1)
    if average == "constant":
        return np.array([group.max_tokens for group, _ in members])
    return np.ones_like(counts)


def _check_numbers(members: Sequence[tuple[Group, int]], advantages: NDArray[Any]) -> None:
    """Raises LearnerFailure, which names the episode of a number that is not finite."""
    for (group, index), advantage in zip(members, advantages, strict=True):
        if not (np.isfinite(advantage) and np.isfinite(group.answers[index].logprobs).all()):
            raise LearnerFailure(
                f"episode {group.episode}, turn {group.turn}: an advantage or a sampled token's logprob is not finite",
                remedy="check the environment's rewards and a custom algorithm's advantages (they must be finite)",
            )


def micro_batches(rows: Sequence[Row], limit: int) -> list[list[Row]]:
    """Rows sorted by length in batches of at most `limit` tokens, including padding; a longer row forms its own
    batch.

    A batch is closed early if the next row would add more padding than a separate pass costs.
    """
    batches: list[list[Row]] = []
    filled = 0
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        width = len(row.tokens)
        padded = width * (len(batches[-1]) + 1) if batches else 0
        filled += width
        much = padded - filled > max(_PASS_TOKENS, _MAX_PADDING_SHARE * filled)
        if not batches or padded > limit or much:
            batches.append([])
            filled = width
        batches[-1].append(row)
    return batches


def tree_rows(groups: Sequence[Group], which: Iterable[int], longest: int) -> list[Row]:
    """Packed rows of these groups: one per prompt or common prefix, more if a row would exceed `longest` tokens."""
    rows: list[Row] = []
    for prompt, responses, most in _with_prefixes(list(_by_prompt(groups, which)), longest):
        builder = _RowBuilder(prompt)
        for response, answers in responses:
            if not builder.fits(response[0], most):
                rows.append(builder.close())
                builder = _RowBuilder(prompt)
            builder.add(response, answers)
        rows.append(builder.close())
    return rows


def _with_prefixes(
    prompts: Sequence[tuple[Tokens, Responses]], longest: int
) -> Iterator[tuple[Tokens, Responses, int]]:
    """Prompts with their responses, and the maximum tokens of a row.

    A long common prefix replaces its prompts: the rest of each prompt becomes part of its responses. These rows are
    kept short, because the cost of attention is quadratic in a row's tokens.
    """
    prefixes = shared_prefixes(prompt for prompt, _ in prompts)
    together: dict[Tokens, Responses] = {}
    for prompt, responses in prompts:
        prefix = prefixes.get(prompt)
        if prefix is None:
            yield prompt, responses, longest
            continue
        rest = prompt[len(prefix) :]
        unlearnt = (False,) * len(rest)
        together.setdefault(prefix, []).extend(
            (((*rest, *tokens), (*unlearnt, *(learnt or (True,) * len(tokens)))), answers)
            for (tokens, learnt), answers in responses
        )
    for prefix, responses in together.items():
        yield prefix, sorted(responses), min(longest, _MAX_ROW_PREFIXES * len(prefix))


def single_rows(groups: Sequence[Group], which: Iterable[int]) -> list[Row]:
    """Rows of these groups with one sequence each: responses to equal prompts that are equal, or continue each other."""
    rows: list[Row] = []
    for prompt, responses in _by_prompt(groups, which):
        builder, before = _RowBuilder(prompt), responses[0][0][0]
        for response, answers in responses:
            if response[0][: len(before)] != before:
                rows.append(builder.close())
                builder = _RowBuilder(prompt)
            builder.add(response, answers)
            before = response[0]
        rows.append(builder.close())
    return rows


def _by_prompt(groups: Sequence[Group], which: Iterable[int]) -> Iterator[tuple[Tokens, Responses]]:
    """Distinct prompts with the distinct responses to them, in lexicographic order.

    Responses without trained tokens are excluded.
    """
    members = list(which)
    roots = _shortest_prefixes({tuple(groups[index].prompt_ids) for index in members})
    prompts: dict[Tokens, dict[Response, list[AnswerIndex]]] = {}
    for index in members:
        prompt = tuple(groups[index].prompt_ids)
        before = prompt[len(roots[prompt]) :]
        responses = prompts.setdefault(roots[prompt], {})
        for number, answer in enumerate(groups[index].answers):
            if answer.learnt(answer.token_ids):
                mask = answer.loss_mask
                if before:
                    mask = [False] * len(before) + (mask or [True] * len(answer.token_ids))
                response = (*before, *answer.token_ids), tuple(mask or ())
                responses.setdefault(response, []).append((index, number))
    for prompt, responses in prompts.items():
        if responses:
            yield prompt, sorted(responses.items())


def _shortest_prefixes(prompts: Iterable[Tokens]) -> dict[Tokens, Tokens]:
    """For each prompt, the shortest prompt that is its prefix, possibly itself."""
    roots: dict[Tokens, Tokens] = {}
    root: Tokens | None = None
    for prompt in sorted(prompts):  # prompts with this prefix follow it directly
        if root is None or prompt[: len(root)] != root:
            root = prompt
        roots[prompt] = root
    return roots


class _RowBuilder:
    """A row that grows by responses in lexicographic order."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt = len(prompt)
        self.row = Row(list(prompt), list(range(len(prompt))), [0] * len(prompt))
        self._path: list[int] = []
        """Places of the previous response, without its last token."""

    def fits(self, response: Tokens, longest: int) -> bool:
        """Whether the row stays within `longest` with this response; the first one always does."""
        most = len(self.row.tokens) + len(response) - 1
        return not self.row.answers or most <= longest or most - self._shared(response) <= longest

    def add(self, response: Response, answers: Sequence[AnswerIndex]) -> None:
        """Append a response of these answers."""
        row = self.row
        tokens, learnt = response
        shared = self._shared(tokens)
        self._close(shared)
        begin, end = len(row.tokens), len(row.tokens) + len(tokens) - 1 - shared
        self._path.extend(range(begin, end))
        row.tokens.extend(tokens[shared:-1])
        row.positions.extend(range(self._prompt + shared, self._prompt + len(tokens) - 1))
        row.ends.extend([0] * (end - begin))
        row.answers.extend(answers)
        sources = [self._prompt - 1, *self._path]
        row.sources.extend((list(compress(sources, learnt)) if learnt else sources) * len(answers))
        row.targets.extend((list(compress(tokens, learnt)) if learnt else list(tokens)) * len(answers))

    def close(self) -> Row:
        """The finished row."""
        self._close(0)
        self.row.ends[: self._prompt] = [len(self.row.tokens)] * self._prompt
        return self.row

    def _shared(self, response: Tokens) -> int:
        """Number of places of the path that are a prefix of a response."""
        tokens, shared = self.row.tokens, 0
        for position, token in zip(self._path, response[:-1], strict=False):
            if tokens[position] != token:
                break
            shared += 1
        return shared

    def _close(self, depth: int) -> None:
        end = len(self.row.tokens)
        for position in self._path[depth:]:
            self.row.ends[position] = end
        del self._path[depth:]


def rows_work(rows: Iterable[Row]) -> Work:
    """Work of the learner's rows: a place sees as many places as its position, plus itself."""
    tokens = context = predicted = 0
    for row in rows:
        tokens += len(row.tokens)
        context += sum(row.positions) + len(row.positions)
        predicted += len(set(row.sources))
    return Work(tokens, context, predicted)


def _joined(rows: Sequence[Row]) -> Row:
    """Rows as one, whose parts do not see each other."""
    whole = Row([], [], [])
    for row in rows:
        begin = len(whole.tokens)
        whole.tokens += row.tokens
        whole.positions += row.positions
        whole.ends += [begin + end for end in row.ends]
        whole.answers += row.answers
        whole.sources += [begin + source for source in row.sources]
        whole.targets += row.targets
    return whole


def collate(
    rows: Sequence[Row], pad: int, *, packed: bool, device: torch.device, blocks: bool = False
) -> RowBatch:
    """Rows as one batch; with `blocks` (FlexAttention), as a single row with one of a few widths."""
    rows = [_joined(rows)] if blocks else rows
    lengths = np.array([len(row.tokens) for row in rows])
    width = row_width(int(lengths.max())) if blocks else int(lengths.max())
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    ends = np.tile(np.arange(1, width + 1), (len(rows), 1))
    for number, row in enumerate(rows):
        length = len(row.tokens)
        ids[number, :length] = row.tokens
        positions[number, :length] = row.positions
        ends[number, :length] = row.ends
    starts = np.repeat(np.arange(len(rows)) * width, [len(row.sources) for row in rows])
    flat = starts + np.array([source for row in rows for source in row.sources], dtype=np.int64)
    nodes, node_indices = np.unique(flat, return_inverse=True)
    targets = np.array([target for row in rows for target in row.targets], dtype=np.int64)

    def tensor(array: NDArray[np.int64]) -> Tensor:
        return to_device(array, device)

    return RowBatch(
        token_ids=tensor(ids),
        positions=tensor(positions),
        ends=tensor(ends),
        lengths=tensor(lengths),
        packed=packed,
        nodes=tensor(nodes),
        node_indices=tensor(node_indices),
        targets=tensor(targets),
        node_numbers=node_indices,
    )
