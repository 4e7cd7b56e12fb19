"""Rows for the learner: a prompt and the tree of all its responses in one row, or one response per row.

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
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

from training_core.llm.models.flops import Work
from training_core.llm.prefixes import shared_prefixes
from training_core.types import Group

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


_PASS_TOKENS = 256
"""Padding that costs no more than a separate pass does, in tokens of a small model."""
_MAX_ROW_PREFIXES = 8
"""Maximum length of a row of several prompts, in lengths of their common prefix."""
_MAX_PADDING_SHARE = 0.1
"""Share of padding above which a batch is closed."""


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


def rows_work(rows: Iterable[Row]) -> Work:
    """Work of the learner's rows: a place sees as many places as its position, plus itself."""
    tokens = context = predicted = 0
    for row in rows:
        tokens += len(row.tokens)
        context += sum(row.positions) + len(row.positions)
        predicted += len(set(row.sources))
    return Work(tokens, context, predicted)
