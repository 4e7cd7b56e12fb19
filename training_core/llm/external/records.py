"""Conversion of rollout buffer records to episodes; a group becomes siblings.

A record has text, which is encoded under a loss mask, or the sampled tokens, which are not encoded again. These have two
forms. By message, as in the gateway's responses: an assistant's message has `prompt_token_ids` and `token_ids`,
and may have `logprobs` and `versions`. By sample, with slime's names: the record has `tokens` (prompt and response)
and `response_length`, and may have `loss_mask`, `rollout_log_probs` and `versions` of the response.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isclass
from typing import Any, Literal

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import ConfigError, DataError
from training_core.importing import load_object, made
from training_core.llm.environments.host import describe
from training_core.llm.external.slime import MultiTurnLossMaskGenerator, generated_mask
from training_core.llm.external.source import Record
from training_core.llm.generation.prompt_checks import check_sequence
from training_core.llm.learning.loss_masks import MaskedTokens, mask_messages
from training_core.llm.serving.sequences import TokenSequence, add_turn, join_calls
from training_core.types import NOT_SAMPLED, Answer, Episode, Message


def sampled_sequences(record: Mapping[str, Any], version: int) -> list[TokenSequence]:
    """Sequences of a record with ids; none if it has only text. Rewards are 0.

    `version` applies to tokens with logprobs and without versions. Raises DataError.
    """
    if record.get("tokens") is not None:
        return [_sample(record, version)]
    trained = [
        message
        for message in record["messages"]
        if message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1
    ]
    with_ids = [message for message in trained if message.get("token_ids") is not None]
    if not with_ids:
        return []
    if len(with_ids) < len(trained):
        raise DataError(
            f"{len(with_ids)} of {len(trained)} assistant messages have token_ids",
            remedy="give them for each trained message",
        )
    return list(join_calls(_call(message, version) for message in with_ids))


def _call(message: Mapping[str, Any], version: int) -> TokenSequence:
    ids = _list(message, "token_ids")
    if not message.get("prompt_token_ids"):
        raise DataError("an assistant message with token_ids needs prompt_token_ids, the ids of its prompt")
    cut = message.get("finish_reason") == "length"
    answer = _answer(ids, message.get("logprobs"), message.get("versions"), [True] * len(ids), version, cut)
    return TokenSequence(_list(message, "prompt_token_ids"), answer)


def _sample(record: Mapping[str, Any], version: int) -> TokenSequence:
    tokens, length = _list(record, "tokens"), record.get("response_length")
    mask = record.get("loss_mask")
    if length is None and isinstance(mask, list):
        length = len(mask)
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length < len(tokens):
        raise DataError(
            f"response_length = {length!r} of {len(tokens)} tokens: it must be above 0 and leave a prompt"
        )
    marks = [True] * length if mask is None else [mark == 1 for mark in _list(record, "loss_mask")]
    if len(marks) != length:
        raise DataError(f"loss_mask has {len(marks)} marks, and the response has {length} tokens")
    if True not in marks:
        raise DataError("loss_mask leaves nothing to train on")
    logprobs = record.get("rollout_log_probs", record.get("logprobs"))
    versions = record.get("versions", record.get("weight_versions"))
    cut = _is_truncated(record)
    return TokenSequence(tokens[:-length], _answer(tokens[-length:], logprobs, versions, marks, version, cut))


def _answer(
    ids: list[int], logprobs: Any, versions: Any, marks: list[bool], version: int, cut: bool
) -> Answer:
    """Without logprobs, the learner computes them with its version."""
    count = len(ids)
    sampled = _numbers(logprobs, "logprobs", count) if logprobs is not None else []
    if versions is None or isinstance(versions, int | str):
        versions = [version if versions is None else versions] * count
    by_token = [
        int(number) if sampled and trained else NOT_SAMPLED
        for number, trained in zip(_numbers(versions, "versions", count), marks, strict=True)
    ]
    return Answer(ids, sampled, by_token, "length" if cut else "stop", "", marks)


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise DataError(f"{name} must be a list, not {type(value).__name__}")
    return value


def _numbers(values: Any, name: str, count: int) -> list[float]:
    if not isinstance(values, list) or len(values) != count:
        length = len(values) if isinstance(values, list) else "no"
        raise DataError(f"{count} tokens have {length} {name}", remedy="give one per token")
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers: {error}") from error


@dataclass(frozen=True)
class RecordReader:
    """Converts records to episodes."""

    config: RunConfig
    workflow: RolloutBuffer
    tokenizers: Mapping[str, Any]
    """Tokenizer by policy."""
    attempt: int
    iteration: int
    version: Callable[[str], int] = lambda policy: 0
    """Newest version of a policy's weights, by its name."""

    def episode(self, record: Record, kind: Literal["train", "eval", "eval_sampled"], name: str) -> Episode:
        """One record as an episode: a turn whose prompt ends before the first trained token; or, if it contains
        sampled ids, a turn for each sequence of them. A record that cannot be used for training is a failed episode.
        """
        info = record.get("extra_info") or {}
        extra = dict(info) if isinstance(info, Mapping) else {"extra_info": info}
        raw = float(record["raw_reward"] if "raw_reward" in record else record["reward"])
        title = next((_text(message) for message in record["messages"] if message["role"] == "user"), "")
        episode = Episode(
            id=f"{self.attempt}-{self.iteration}-{kind}-{name}",
            iteration=self.iteration,
            kind=kind,
            task=str(record["instance_id"])[:200],
            title=title[:200],
            outcome=f"reward {raw:g}",
            success=raw >= self.workflow.success_at,
            final_board=_board({"uid": record["uid"], "raw_reward": raw, **extra}),
        )
        now = time.time()
        episode.ended = _timestamp(extra.get("timestamp"), now)
        episode.started = min(_timestamp(extra.get("started"), episode.ended), episode.ended)
        if extra.get("error"):
            episode.fail(str(extra["error"]))
            return episode
        if extra.get("unscored") is True:
            episode.unscored, episode.outcome = 1, "no reward"
            return episode
        role = self._role(extra)
        policy = self.config.team.roles[role].policy
        try:
            sequences = self._sequences(record, role, policy)
        except ConfigError:
            raise
        except Exception as error:  # any error that the record causes in a chat template or loss mask
            episode.fail(str(error) if isinstance(error, DataError) else describe(error))
            return episode
        tokenizer = self.tokenizers[policy]
        *_, last = [add_turn(episode, sequence, policy, tokenizer, 0.0) for sequence in sequences]
        episode.turns[0].messages = _prompt(record)
        last.team_reward, last.reward = raw, self._reward(record, raw)  # the reward counts once
        return episode

    def _sequences(self, record: Record, role: str, policy: str) -> list[TokenSequence]:
        """From the record's ids; otherwise one from its text. Raises DataError."""
        version, tokenizer = self.version(policy), self.tokenizers[policy]
        sequences = []
        for prompt, answer, _, _ in sampled_sequences(record, version) or [self._encoded(record, tokenizer)]:
            check_sequence(prompt, answer, len(tokenizer), version)
            if answer.loss_mask and all(answer.loss_mask):
                answer = replace(answer, loss_mask=None)
            sequences.append(TokenSequence(prompt, answer, 0.0, role))
        return sequences

    def _mask(self, messages: Any, tools: Any, tokenizer: Any) -> MaskedTokens:
        """The loss mask, by the type in the config, or by a custom function or class. Raises DataError, ConfigError."""
        path = self.workflow.loss_mask_path
        if tools is not None and not (
            isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
        ):
            raise DataError("a record's tools must be a list of objects, as offered to the policy")
        if not path:
            return mask_messages(self.workflow.loss_mask, messages, tokenizer, tools or None)
        generator = load_object(path, "workflow.loss_mask_path")
        if isclass(generator) and issubclass(generator, MultiTurnLossMaskGenerator):
            masked = generated_mask(generator, self.workflow.loss_mask_type, messages, tokenizer, tools)
        elif self.workflow.loss_mask_type:
            text = f"{path} is not a subclass of MultiTurnLossMaskGenerator and accepts no type"
            raise ConfigError({"workflow.loss_mask_type": text}, remedy="remove it")
        else:
            masked = made(path, {}, "workflow.loss_mask_path")(messages, tokenizer, tools or None)
        if not isinstance(masked, MaskedTokens) or len(masked.token_ids) != len(masked.loss_mask):
            raise DataError(f"{path} must return MaskedTokens, with one mark per token")
        return masked

    def _encoded(self, record: Record, tokenizer: Any) -> TokenSequence:
        """A record's text up to its last trained token. Raises DataError if none is trained on, or the loss mask does not
        fit the tokenizer.
        """
        masked = self._mask(record["messages"], record.get("tools"), tokenizer)
        ids, length = masked.token_ids, masked.response_length
        if not length or length == len(ids):
            raise DataError("no assistant message in the record is trained on, or it has no prompt before it")
        mask = masked.loss_mask[-length:]
        end = max(index for index, trained in enumerate(mask) if trained) + 1
        # Logprobs are unknown: the learner computes them before its first step.
        answer = Answer(
            ids[-length:][:end],
            [],
            [NOT_SAMPLED] * end,
            "length" if _is_truncated(record) else "stop",
            "",
            mask[:end],
        )
        return TokenSequence(ids[:-length], answer)

    def _reward(self, record: Record, raw: float) -> float:
        """The reward that is used for training."""
        reward = raw if self.workflow.reward == "raw" else float(record["reward"])
        return self.config.algorithm.team_weight * reward

    def _role(self, extra: Mapping[str, Any]) -> str:
        """The role in the record, otherwise the first trained role."""
        team = self.config.team
        named = str(extra.get("role", ""))
        return named if named in team.roles else next(name for name in team.order if team.roles[name].trained)


def train_episodes(groups: Sequence[Sequence[Record]], reader: RecordReader, first: int) -> list[Episode]:
    """Groups as siblings, numbered from `first`."""
    episodes: list[Episode] = []
    for index, group in enumerate(groups):
        for record in group:
            episode = reader.episode(record, "train", str(first + len(episodes)))
            episode.siblings = f"{reader.iteration}-{first + index}-{record['instance_id']}"
            episodes.append(episode)
    return episodes


def _prompt(record: Record) -> list[Message]:
    """The messages before the first trained one."""
    prompt: list[Message] = []
    for message in record["messages"]:
        if message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1:
            break
        prompt.append({"role": str(message["role"]), "content": _text(message)})
    return prompt


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "" if content is None else str(content)


def _board(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A record's facts, line by line (training_core.boards.Lines), except its times, which the episode contains."""
    shown = {name: value for name, value in facts.items() if name not in ("started", "timestamp")}
    lines = [
        {
            "label": str(name)[:40],
            "text": (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:2000],
            "state": "",
        }
        for name, value in list(shown.items())[:200]
    ]
    return {"kind": "lines", "lines": lines}


def _is_truncated(record: Mapping[str, Any]) -> bool:
    return bool((record.get("extra_info") or {}).get("truncated"))


def _timestamp(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise
