"""Replays of played episodes: the worth of every message, and episodes that continue after another message."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure
from training_core.llm.workflows.message_worth import (
    Measured,
    MessageWorth,
    WorthSettings,
    measure,
    worth_by_role,
)
from training_core.llm.workflows.replay import (
    Recorded,
    Replay,
    check_replayable,
    play_replays,
    recorded_episode,
    turn_positions,
    unchanged_messages,
)
from workers.actors.coordinator import RolloutCoordinator
from workers.jobs.context import MAX_EPISODES, JobContext, figures
from workers.jobs.language_models import coordinator_of, frozen, proxies_of
from workers.telemetry.metrics import episode_facts

SETTINGS = ("alternatives", "continuations", "outcome", "discount", "max_tokens")
"""Parameters that are fields of WorthSettings."""
LOWEST = 10
"""Number of messages with the lowest worth in the result."""
TEXT = 500
"""Maximum characters of a message or an alternative in the result."""


def message_worth(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Measure the messages of `recorded` episodes, or of `episodes` new ones from the held-out task `first`.

    Each turn has its `worth`; the first continuation of every answer is stored behind the episodes. Result: the sum by role, the
    lowest messages, all messages of `recorded` ones, and the number of sampled tokens. Raises ConfigError, EnvironmentFailure.
    """
    config = frozen(context.config, context.checkpoint)
    check_replayable(config)
    parameters = context.parameters
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    documents = list(parameters.get("recorded", ()))
    if not documents:
        count, first = int(parameters.get("episodes", 4)), int(parameters.get("first", 0))
        context.progress(0.5, f"playing {count} episodes")
        documents = coordinator.evaluate(0, "eval_sampled", count, first=first).transcripts
    whole = [document for document in documents if not document["failed"]]
    settings = WorthSettings(**{name: parameters[name] for name in SETTINGS if name in parameters})
    recorded = [recorded_episode(document, config) for document in whole]

    def report(done: int, count: int) -> None:
        context.progress(0.5 + 0.5 * done / count, f"{done} of {count} messages")

    measured = measure(recorded, coordinator.replay_context(), settings, report)
    if len(measured.refused) == len(whole):
        raise next(iter(measured.refused.values()), EnvironmentFailure("all episodes failed"))
    return _stored(context, coordinator, whole, measured) | {"failed": len(documents) - len(whole)}


def _stored(
    context: JobContext[RunConfig],
    coordinator: RolloutCoordinator,
    documents: Sequence[dict[str, Any]],
    measured: Measured,
) -> dict[str, Any]:
    """Store the episodes with their worths, and the continuations behind them. Returns the result of the job."""
    continuations: list[dict[str, Any]] = []
    room = max(0, MAX_EPISODES - len(documents))
    messages: list[dict[str, Any]] = []
    for number, (document, worths) in enumerate(zip(documents, measured.messages, strict=True)):
        positions = turn_positions(document, context.config)
        for worth in worths:
            position = positions.index(worth.position)
            stored = _continuations(worth, position + 1, coordinator, room - len(continuations))
            turn = document["turns"][position]
            turn["worth"] = _worth_document(worth, len(documents) + len(continuations), len(stored))
            continuations += stored
            text = turn["candidates"][turn["executed"]]["text"][:TEXT]
            messages.append({"episode": number, "turn": position + 1, "text": text} | turn["worth"])
    context.folder.keep([*documents, *continuations])
    return {
        "episodes": len(documents),
        "messages": len(messages),
        "left_out": measured.left_out,
        "failed_messages": measured.failed,
        "refused": [str(reason) for reason in measured.refused.values()],
        "tokens": measured.tokens,
        "worth": {role: asdict(earned) for role, earned in worth_by_role(measured.messages).items()},
        "lowest": sorted(messages, key=lambda message: float(message["worth"]))[:LOWEST],
        **({"by_message": messages} if context.parameters.get("recorded") else {}),
    }


def _continuations(
    worth: MessageWorth, number: int, coordinator: RolloutCoordinator, room: int
) -> list[dict[str, Any]]:
    """Documents of the first continuation of the message and of each alternative; none if there is no room for all."""
    if not worth.alternatives or len(worth.alternatives) + 1 > room:
        return []
    names = ["the message itself", *(item.text for item in worth.alternatives)]
    episodes = [worth.continuation, *(item.continuation for item in worth.alternatives)]
    return [
        document | {"title": f"#{number} {worth.role}: {' '.join(name.split()) or '(nothing)'}"[:200]}
        for name, document in zip(names, coordinator.documents(episodes), strict=True)
    ]


def _worth_document(worth: MessageWorth, first: int, stored: int) -> dict[str, Any]:
    """`first`: index of the first stored continuation."""
    return {
        "role": worth.role,
        "worth": worth.worth,
        "half_width": worth.half_width,
        "differs": worth.differs,
        "value": fmean(worth.values),
        "equal": worth.equal,
        "continuation": first if stored else None,
        "alternatives": [
            {
                "text": item.text[:TEXT],
                "count": item.count,
                "value": fmean(item.values),
                "continuation": first + index if stored else None,
            }
            for index, item in enumerate(worth.alternatives, 1)
        ],
    }


def what_if(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Play on from the message `turn` (from 1) of a recorded episode with `text` in its position, `episodes` times.

    Stores the recorded episode, then the new ones. Result: the figures of the new ones. Raises ConfigError, EnvironmentFailure.
    """
    config = frozen(context.config, context.checkpoint)
    check_replayable(config)
    (document,) = context.parameters["recorded"]
    recorded = recorded_episode(document, config)
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    position = list(recorded.messages)[int(context.parameters["turn"]) - 1]
    answer = coordinator.written(recorded.roles[position], str(context.parameters["text"]))
    messages = unchanged_messages(recorded, position, config) | {
        position: Recorded(answer, recorded.messages[position].prompt_ids)
    }
    count = int(context.parameters["episodes"])
    context.progress(0.5, f"playing {count} episodes")
    replays = [Replay(recorded.task, messages, (1, number)) for number in range(count)]
    replayed = play_replays(replays, recorded.split, coordinator.replay_context())
    if len(replayed.failures) == count:
        raise replayed.failures[0]
    played = [
        item | {"title": f"{number}: {item['title']}"[:200]}
        for number, item in enumerate(coordinator.documents(replayed.episodes), 1)
    ]
    context.folder.keep([document, *played])
    return figures([episode_facts(episode) for episode in replayed.episodes])
