"""A thousand environments at once, spread over workers: the same episodes whatever their number, one batch a role's turn."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workers.cluster.test_pool import make_pool
from training_core.config.files import load_config
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool
from training_core.llm.environments.plan_path.wording import COMPASS, MOVES
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.registry import WORKFLOWS
from training_core.types import Answer, Episode, Prompt
from workers.actors.player import renderer

pytestmark = [pytest.mark.ray, pytest.mark.extended]
TASKS = 1000


class Voice:
    """Says words that follow from what it sees and from the noise key alone; remembers the size of each batch."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.batches: list[int] = []

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        self.batches.append(len(prompts))
        return [[self.answer(prompt, place) for place in range(prompt.count)] for prompt in prompts]

    def answer(self, prompt: Prompt, place: int) -> Answer:
        draw = zlib.crc32(repr((prompt.token_ids, tuple(prompt.key), place)).encode())
        return Answer([draw], [0.0], [0], "stop", self.words[draw % len(self.words)])


def render(messages: Any) -> list[int]:
    return list(messages[-1]["content"].encode())


@contextmanager
def spread(label: str, workers: int) -> Iterator[EnvironmentPool]:
    import ray

    pool, handles = make_pool(label, workers)
    yield pool
    for handle in handles:
        ray.kill(handle)


def told(episodes: list[Episode]) -> list[Any]:
    """Everything but the times."""
    return [replace(episode, started=0.0, ended=0.0, stages=[]) for episode in episodes]


@pytest.mark.parametrize("workflow", ["turn_tree", "episodes"])
def test_a_thousand_environments_play_the_same_on_any_number_of_workers(
    ray_cluster: None, workflow: str
) -> None:
    count = {"turn_tree": 2, "episodes": 4}[workflow]
    tasks = range(TASKS if workflow == "turn_tree" else TASKS // count)
    config = load_config(
        "plan_path_duo",
        {
            "workflow.type": workflow,
            "rollout.tasks": len(tasks),
            "rollout.group_size": count,
            "resources.environments_per_worker": TASKS,
            "environment.max_turns": 3,
        },
    )

    def play(pool: EnvironmentPool) -> tuple[list[Any], dict[str, Voice]]:
        voices = {"planner": Voice(list(COMPASS)), "executor": Voice(list(MOVES))}
        context = RolloutContext(config, pool, voices, dict.fromkeys(voices, render), attempt=1, iteration=1)
        return told(WORKFLOWS[workflow].train(tasks, context)), voices

    alone, voices = play(EnvironmentHost(config.environment, config.run.seed))
    assert len(alone) == TASKS and all(episode.turns for episode in alone)
    assert len({episode.outcome for episode in alone}) > 1
    assert voices["planner"].batches[0] == TASKS, "all environments speak in one batch"
    assert len(voices["planner"].batches) == len(voices["executor"].batches) <= 3
    for workers in (1, 3):
        with spread(f"thousand-{workflow}-{workers}", workers) as pool:
            assert play(pool)[0] == alone


def test_a_policy_s_answers_do_not_depend_on_the_number_of_workers(
    ray_cluster: None, little_model: Path
) -> None:
    """The same with a model that samples: its noise is keyed by task and turn, never by place or worker."""
    size = {"environment.size": 4, "environment.max_turns": 2, "environment.moves_per_turn": 2}
    config = load_config("plan_path_duo", {"rollout.tasks": 60, "rollout.group_size": 3} | size)
    engine = TorchEngine(load_model(little_model), load_tokenizer(little_model))
    shown = renderer(engine.tokenizer)

    def play(pool: EnvironmentPool, tasks: range) -> list[Any]:
        voices = dict.fromkeys(("planner", "executor"), engine.generate)
        context = RolloutContext(config, pool, voices, dict.fromkeys(voices, shown), attempt=1, iteration=1)
        return told(WORKFLOWS["turn_tree"].train(tasks, context))

    whole = play(EnvironmentHost(config.environment, config.run.seed), range(60))
    import ray

    from workers.cluster.pool import RemotePool
    from workers.cluster.spawner import Spawner
    from workers.sizing.placement import place

    spawner = Spawner(config, None, "sampled", None)  # type: ignore[arg-type]
    actor_slots = place(config).of("environment")
    handles = [spawner.env_worker(actor_slot) for actor_slot in actor_slots]
    said = play(RemotePool(spawner, actor_slots, handles), range(60))
    for handle in handles:
        ray.kill(handle)
    texts = [
        [
            [candidate.answer.token_ids for turn in each.turns for candidate in turn.candidates]
            for each in some
        ]
        for some in (whole, said)
    ]
    assert texts[0] == texts[1] and len(texts[0]) == 60
