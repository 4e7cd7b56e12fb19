"""Sampling under a grammar: which tokens may follow, by llguidance.

A grammar is a text in llguidance's form of Lark, which vLLM's backend `guidance` reads too. Tokens that it forbids have no probability: the
engine samples from the distribution over the others, its log-probabilities are of that distribution, and the learner masks the same
tokens (GrammarMasks), so ratios of fresh data are 1. An answer may end only where the grammar is satisfied.

V vocabulary.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.errors import EngineFailure, RequestRefused
from training_core.llm.generation.stop_words import end_tokens
from training_core.types import Answer, GrammarSpan

Mask = NDArray[np.bool_]
_GRAMMARS_KEPT = 256
"""Validated grammars that are remembered."""
_SPACE = {"whitespace_pattern": r"( |\n[ \t]{0,32})?"}
"""Between the parts of JSON: nothing, a space, or an indented line, so that a policy does not fill its answers with space."""
INSTALL = "install the extra that has it: pip install 'troupe[server]'"


def json_grammar(schema: Mapping[str, Any]) -> str:
    """The grammar of JSON that satisfies a JSON schema."""
    return f"start: {_json(schema)}\n"


def tool_grammar(tools: Mapping[str, Mapping[str, Any]], schema: Mapping[str, Any] | None = None) -> str:
    """The grammar of calls of these tools (name -> JSON schema of the parameters) in Hermes' notation; with a `schema`, JSON that
    satisfies it is the alternative.
    """
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": {"type": "object"} | dict(parameters)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, parameters in tools.items()
    ]
    lines = [
        "start: calls" if schema is None else "start: calls | other",
        r'calls: call ("\n" call)*',
        r"call: /<tool_call>\n/ object /\n<\/tool_call>/",
        f"object: {' | '.join(f'object_{number}' for number in range(len(calls)))}",
        *(f"object_{number}: {_json(call)}" for number, call in enumerate(calls)),
        *([] if schema is None else [f"other: {_json(schema)}"]),
    ]
    return "\n".join(lines) + "\n"


def _json(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({'x-guidance': _SPACE} | dict(schema))}"


@lru_cache(_GRAMMARS_KEPT)
def check_grammar(grammar: str) -> None:
    """Raises RequestRefused for a grammar, or a JSON schema in it, that llguidance does not take."""
    error = _library().LLMatcher.validate_grammar(grammar)
    if error:
        raise RequestRefused(f"the schema cannot be sampled: {error.splitlines()[0][:300]}")


@lru_cache(8)
def samples_grammars(tokenizer: Any) -> bool:
    """Whether answers of this tokenizer can be sampled under a grammar: its tokens are sequences of bytes."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    try:
        _library().LLTokenizer(backend.to_str())
    except (AttributeError, ValueError, EngineFailure):
        return False
    return True


class Grammars:
    """The grammars of one tokenizer, as followed token by token."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        """`vocabulary` is the number of the model's logits, `ends` the tokens that end an answer. Raises EngineFailure for a tokenizer
        whose tokens are not sequences of bytes.
        """
        self.vocabulary = vocabulary
        try:
            text = tokenizer.backend_tokenizer.to_str()
            self._tokenizer = _library().LLTokenizer(text, n_vocab=vocabulary, eos_token=list(ends))
        except (AttributeError, ValueError) as error:
            raise EngineFailure(
                f"the model's tokenizer cannot be used with a grammar: {error}",
                remedy="use a model with a byte-level tokenizer, or send no schema",
            ) from error

    def follow(self, grammar: str, tokens: Iterable[int] = ()) -> "GrammarState":
        """The state after these tokens. Raises EngineFailure if the grammar or the tokenizer does not allow them."""
        state = GrammarState(_library().LLMatcher(self._tokenizer, grammar), self.vocabulary)
        for token in tokens:
            state.add(token)
        return state


class GrammarState:
    """A place in a grammar."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    def add(self, token: int) -> None:
        """Move behind one more token. Raises EngineFailure."""
        if not self._matcher.consume_token(token):
            raise EngineFailure(
                f"the grammar does not continue with token {token}: {self._matcher.get_error()[:300]}"
            )

    def mask(self) -> Mask:
        """Which tokens (V,) may follow. Raises EngineFailure."""
        if self._matcher.is_error():
            raise EngineFailure(f"the grammar cannot be followed: {self._matcher.get_error()[:300]}")
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(bits, count=self._vocabulary, bitorder="little").view(np.bool_)


def grammar_spans(grammar: str, tokens: int) -> tuple[GrammarSpan, ...]:
    """The spans of an answer of so many tokens that was sampled under a grammar, if there is one."""
    return (GrammarSpan(0, tokens, grammar),) if grammar else ()


def answer_masks(answer: Answer, grammars: Grammars) -> Mask | None:
    """Which tokens could be sampled at each trained token of an answer (trained tokens, V); None without a grammar. Raises
    EngineFailure if the answer does not follow its grammars.
    """
    if not answer.grammars:
        return None
    masks = np.ones((len(answer.token_ids), grammars.vocabulary), dtype=np.bool_)
    for span in answer.grammars:
        state = grammars.follow(span.grammar)
        for position in range(span.start, span.end):
            masks[position] = state.mask()
            state.add(answer.token_ids[position])
    return masks if answer.loss_mask is None else masks[np.asarray(answer.loss_mask)]


def model_grammars(model: Any, tokenizer: Any) -> Grammars:
    """The grammars of a model's logits."""
    vocabulary = int(model.config.get_text_config().vocab_size)
    return Grammars(tokenizer, vocabulary, end_tokens(tokenizer, model))


def _library() -> Any:
    """llguidance. Raises EngineFailure if it is not installed."""
    try:
        import llguidance
    except ImportError as error:
        raise EngineFailure("sampling under a grammar needs llguidance", remedy=INSTALL) from error
    return llguidance
