"""Replays: episodes whose answers are recorded up to a message and sampled after it.

The environment starts the task again and executes the recorded answers, so it does not have to be copied. Every prompt of the
recorded part must have exactly the recorded token ids: an environment with randomness of its own is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from training_core.config.rollout import replay_refused
from training_core.config.run import RunConfig
from training_core.errors import ConfigError, EnvironmentFailure
from training_core.llm.environments.base import Split
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.context import Generate, RolloutContext, make_conversations
from training_core.llm.workflows.episodes import EVALUATION_SEED, sampling_settings
from training_core.llm.workflows.lockstep import EpisodeKind, SamplingPlan, play
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, NoiseKey, Prompt

Position = tuple[int, int]
"""A message of an episode: (turn, index in the turn order)."""


def check_replayable(config: RunConfig) -> None:
    """Raise ConfigError if episodes of this config cannot be replayed."""
    if refusal := replay_refused(config.workflow.type):
        raise ConfigError({"workflow.type": refusal})


@dataclass(frozen=True)
class Recorded:
    """A recorded answer, and the prompt to which it was given."""

    answer: Answer
    prompt_ids: Sequence[int]


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode to replay."""

    name: str
    task: int
    split: Split
    messages: Mapping[Position, Recorded]
    """In order."""
    roles: Mapping[Position, str]
    episode_return: float


@dataclass(frozen=True)
class Replay:
    """What one slot plays: the messages that are not sampled, and the words of the noise of the others."""

    task: int
    messages: Mapping[Position, Recorded]
    noise: tuple[int, int] = (0, 0)
    """Replays with equal words share their noise: in equal states they continue equally."""


@dataclass(frozen=True)
class Replayed:
    """Played replays."""

    episodes: list[Episode]
    tokens: int
    """Sampled tokens, with those of alternatives."""
    failures: dict[int, EnvironmentFailure]
    """By index: why an episode is no replay. Its environment raised, or the prompt of a message differs from the recorded one."""


@dataclass
class Alternatives:
    """Answers sampled at the recorded messages, in addition to the recorded ones."""

    count: int
    sampled: dict[tuple[int, Position], list[Answer]] = field(default_factory=dict)
    """By slot and message."""


def recorded_episode(document: Mapping[str, Any], config: RunConfig) -> RecordedEpisode:
    """Read an episode document (workers.telemetry.transcripts). Raises EnvironmentFailure if it cannot be replayed."""
    messages: dict[Position, Recorded] = {}
    roles: dict[Position, str] = {}
    for position, turn in zip(turn_positions(document, config), document["turns"], strict=True):
        executed = turn["candidates"][turn["executed"]]
        parts = (executed[name] for name in ("token_ids", "logprobs", "versions", "stop_reason", "text"))
        messages[position] = Recorded(Answer(*parts), turn["prompt_ids"])
        roles[position] = turn["role"]
    split: Split = "train" if document["kind"] == "train" else "eval"
    return RecordedEpisode(
        document["episode"], _task_number(document), split, messages, roles, document["episode_return"]
    )


def turn_positions(document: Mapping[str, Any], config: RunConfig) -> list[Position]:
    """The position of each of the document's turns. Raises EnvironmentFailure if one is not of the team's turn order."""
    order = list(config.team.order)
    positions: list[Position] = []
    for number, turn in enumerate(document["turns"], 1):
        again = positions and positions[-1][0] == turn["index"]
        start = positions[-1][1] + 1 if again else 0
        if turn["role"] not in order[start:] or not 0 <= turn["executed"] < len(turn["candidates"]):
            raise EnvironmentFailure(
                f"message {number} of the episode {document['episode']} is not of the team's turn order",
                remedy="Choose an episode that this run's own workflow played",
            )
        positions.append((turn["index"], order.index(turn["role"], start)))
    return positions


def _task_number(document: Mapping[str, Any]) -> int:
    """The number of the task. Episodes of evaluations have it in their name, too. Raises EnvironmentFailure."""
    number = document.get("task_number")
    if number is None and document["kind"] != "train":
        number = document["episode"].rpartition("-")[2]
    if number is None or not str(number).isdecimal():
        raise EnvironmentFailure(
            f"the episode {document['episode']} was stored without the number of its task, so it cannot be replayed",
            remedy="Choose a newer episode, or one of an evaluation",
        )
    return int(number)


def unchanged_messages(
    episode: RecordedEpisode, position: Position, config: RunConfig
) -> dict[Position, Recorded]:
    """The recorded messages that stay when another one is put in this position: those before it, and those of its own step, because
    roles of one step do not see each other's answers.
    """
    turn, index = position
    step = next(step for step in config.team.steps if any(own == index for own, _ in step))
    return {other: item for other, item in episode.messages.items() if other <= (turn, step[-1][0])}


def play_replays(
    replays: Sequence[Replay], split: Split, context: RolloutContext, alternatives: Alternatives | None = None
) -> Replayed:
    """Play each replay to its end. Roles sample as in training, at their own temperature."""
    config = context.config
    check_replayable(config)

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        return NoiseKey(EVALUATION_SEED, NoiseStream.REPLAYS, 0, slot, turn, role_index)

    replaying = {
        policy: _Replaying(generate, replays, alternatives) for policy, generate in context.generate.items()
    }
    settings = partial(sampling_settings, config, kind="train")
    kind: EpisodeKind = "train" if split == "train" else "eval_sampled"
    plan = SamplingPlan(kind, split, settings, key, conversations=make_conversations(config))
    episodes = play([replay.task for replay in replays], replace(context, generate=replaying), plan)
    failures = {
        index: EnvironmentFailure(f"the environment raised in a replay: {episode.error}")
        for index, episode in enumerate(episodes)
        if episode.failed
    }
    for policy in replaying.values():
        failures |= policy.failures
    return Replayed(episodes, sum(policy.tokens for policy in replaying.values()), failures)


class _Replaying:
    """A Generate that returns recorded answers, and samples the others with the noise of their replay."""

    def __init__(
        self, generate: Generate, replays: Sequence[Replay], alternatives: Alternatives | None
    ) -> None:
        self._generate = generate
        self._replays = replays
        self._alternatives = alternatives
        self.tokens = 0
        """Sampled tokens."""
        self.failures: dict[int, EnvironmentFailure] = {}
        """By slot."""

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        recorded = [self._recorded(prompt) for prompt in prompts]
        open_prompts = [
            self._sampled(prompt) for prompt, answer in zip(prompts, recorded, strict=True) if answer is None
        ]
        if self._alternatives is not None:
            self._sample_alternatives(prompts, recorded, settings)
        sampled = iter(self._sample(open_prompts, settings))
        return [next(sampled) if answer is None else [answer] for answer in recorded]

    def _recorded(self, prompt: Prompt) -> Answer | None:
        """The recorded answer to a prompt; None if it is to be sampled."""
        slot, position = prompt.key.task, (prompt.key.turn, prompt.key.role)
        recorded = self._replays[slot].messages.get(position)
        if recorded is None:
            return None
        if list(recorded.prompt_ids) != prompt.token_ids:
            difference = EnvironmentFailure(
                f"the prompt of a message in turn {position[0] + 1} differs from the recorded one",
                remedy="Replay it with the run's own config, and with an environment whose randomness its seed decides",
            )
            self.failures.setdefault(slot, difference)
        return recorded.answer

    def _sampled(self, prompt: Prompt) -> Prompt:
        first, second = self._replays[prompt.key.task].noise
        return replace(prompt, key=prompt.key._replace(iteration=first, task=second))

    def _sample(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        groups = self._generate(prompts, settings) if prompts else []
        self.tokens += sum(len(answer.token_ids) for answers in groups for answer in answers)
        return groups

    def _sample_alternatives(
        self, prompts: Sequence[Prompt], recorded: Sequence[Answer | None], settings: SamplingSettings
    ) -> None:
        assert self._alternatives is not None
        asked = [prompt for prompt, answer in zip(prompts, recorded, strict=True) if answer is not None]
        count, stream = self._alternatives.count, NoiseStream.ALTERNATIVES
        wanted = [replace(item, count=count, key=item.key._replace(stream=stream), rid="") for item in asked]
        for prompt, answers in zip(asked, self._sample(wanted, settings), strict=True):
            position = prompt.key.turn, prompt.key.role
            self._alternatives.sampled[prompt.key.task, position] = answers
