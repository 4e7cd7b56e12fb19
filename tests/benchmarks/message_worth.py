"""Whether the worth of a message names planted faults: `python -m tests.benchmarks.message_worth [preset ...] [--episodes 70]`.

Trains each preset in one process, plays held-out episodes with the trained policies, and puts a wrong message in each: the answer that the
same role gave in another episode. Every message is then measured once with 16 alternatives and 8 continuations. The table states what
4 alternatives and 2 continuations, drawn from those, would have said. A planted message mattered if its worth among all of them is
below -0.1.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.benchmarks.local_runs import HOME, train
from training_core.checkpoints import latest
from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.llm.workflows.message_worth import MessageWorth, WorthSettings, estimate, measure
from training_core.llm.workflows.replay import (
    Recorded,
    RecordedEpisode,
    Replay,
    play_replays,
    recorded_episode,
    unchanged_messages,
)
from workers.actors.coordinator import RolloutCoordinator
from workers.jobs.context import JobContext
from workers.jobs.language_models import coordinator_of, frozen, proxies_of
from workers.storage.folders import JobFolder

ITERATIONS = {"plan_path_duo": 100, "plan_path_trio": 60, "eight_queens": 50}
POOL = WorthSettings(alternatives=16, continuations=8)
ALTERNATIVES, CONTINUATIONS, DRAWS = 4, 2, 20
MATTERED, HARMLESS = -0.1, -0.02
"""Worth in the pool: a planted message below the first mattered, another message above the second is harmless."""


@dataclass(frozen=True)
class Planted:
    """An episode with one wrong message."""

    episode: RecordedEpisode
    index: int
    """Of the wrong message."""


def planted_episodes(
    coordinator: RolloutCoordinator, config: RunConfig, count: int, seed: int
) -> tuple[list[Planted], float, float]:
    """Games with a wrong message, and the success before and after it."""
    documents = coordinator.evaluate(0, "eval_sampled", count).transcripts
    episodes = [recorded_episode(document, config) for document in documents]
    draw = random.Random(seed)
    replays, indices = [], []
    for episode in episodes:
        index = draw.randrange(len(episode.messages))
        position = list(episode.messages)[index]
        own = episode.messages[position]
        answers = [
            message.answer
            for other in episodes
            for at, message in other.messages.items()
            if other.roles[at] == episode.roles[position] and message.answer.text != own.answer.text
        ]
        wrong = Recorded(draw.choice(answers), own.prompt_ids)
        replays.append(
            Replay(episode.task, unchanged_messages(episode, position, config) | {position: wrong}, (900, 0))
        )
        indices.append(index)
    played = coordinator.documents(play_replays(replays, "eval", coordinator.replay_context()).episodes)
    before, after = (fmean(item["success"] for item in items) for items in (documents, played))
    return (
        [
            Planted(recorded_episode(document, config), index)
            for document, index in zip(played, indices, strict=True)
        ],
        before,
        after,
    )


def drawn(worth: MessageWorth, draw: random.Random) -> tuple[float, float]:
    """The worth and the half width of a smaller measurement that is drawn from a larger one."""
    alternatives = [None] * worth.equal + [item for item in worth.alternatives for _ in range(item.count)]
    chosen = draw.sample(alternatives, ALTERNATIVES)
    continuations = draw.sample(range(POOL.continuations), CONTINUATIONS)

    def values(whole: Sequence[float]) -> list[float]:
        return [whole[index] for index in continuations]

    others = [(chosen.count(item), values(item.values)) for item in worth.alternatives if item in chosen]
    return estimate(values(worth.values), chosen.count(None), others)[:2]


def figures(
    planted: Sequence[Planted], measured: Sequence[Sequence[MessageWorth]], seed: int
) -> dict[str, Any]:
    """How often the small measurement names the planted message, and others."""
    draw = random.Random(seed)
    lowest, lowest_two, below, alarms, harmless, mattered = [], [], [], [], [], 0
    for item, messages in zip(planted, measured, strict=True):
        important = messages[item.index].worth < MATTERED
        mattered += important
        for _ in range(DRAWS):
            small = [drawn(message, draw) for message in messages]
            others = sorted(worth for index, (worth, _) in enumerate(small) if index != item.index)
            own, half = small[item.index]
            if important:
                lowest.append(not others or own < others[0] - 1e-9)
                lowest_two.append(len(others) < 2 or own < others[1] - 1e-9)
                below.append(own + half < 0)
            alarms += [
                worth + width < 0
                for index, (worth, width) in enumerate(small)
                if index != item.index and messages[index].worth > HARMLESS
            ]
        harmless += [message.worth for index, message in enumerate(messages) if index != item.index]
    return {
        "mattered": mattered,
        "lowest": fmean(lowest),
        "lowest two": fmean(lowest_two),
        "interval below 0": fmean(below),
        "false alarms": fmean(alarms),
        "mean worth of others": fmean(harmless),
    }


def measure_preset(preset: str, home: Path, episodes: int, seed: int) -> str:
    """Train, plant, measure. Returns a row."""
    folder = home / "runs" / f"message_worth-{preset}-{seed}"
    iterations = ITERATIONS[preset]
    if latest(folder / "checkpoints") is None:
        settings = [f"run.seed={seed}", f"run.iterations={iterations}", f"checkpoint.every={iterations}"]
        train(preset, home, folder, [*settings, f"evaluation.every={iterations}"])
    config = frozen(load_config(preset), latest(folder / "checkpoints"))
    context = JobContext(config, JobFolder(home / "work" / f"{preset}-{os.getpid()}"), home, {})
    (home / "work" / f"{preset}-{os.getpid()}").mkdir(parents=True, exist_ok=True)
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    planted, before, after = planted_episodes(coordinator, config, episodes, seed)
    measured = measure([item.episode for item in planted], coordinator.replay_context(), POOL)
    small = measure([item.episode for item in planted], coordinator.replay_context(), WorthSettings()).tokens
    messages = sum(len(messages) for messages in measured.messages)
    row = figures(planted, measured.messages, seed)
    shown = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()]
    cells = [preset, str(episodes), f"{before:.2f} → {after:.2f}", *shown, f"{small / messages:.0f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure the presets and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("presets", nargs="*", default=list(ITERATIONS))
    parser.add_argument("--episodes", type=int, default=70)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, default=HOME)
    arguments = parser.parse_args()
    names = [
        "episodes",
        "success",
        "mattered",
        "lowest",
        "lowest two",
        "interval below 0",
        "false alarms",
        "others' mean",
    ]
    heads = ["preset", *names, "tokens per message"]
    sys.stdout.write("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|\n")
    for preset in arguments.presets:
        sys.stdout.write(measure_preset(preset, arguments.home, arguments.episodes, arguments.seed) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
