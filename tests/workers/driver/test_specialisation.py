"""What of a team is trained: a policy per role, one for all, frozen roles, other models, one agent, three agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.workers.running import TINY_GRID, small_config
from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.llm.base_models.folder_creation import silent
from training_core.llm.base_models.tiny import TinyRecipe
from training_core.llm.base_models.warm_start import make_tiny
from training_core.llm.environments.host import EnvironmentHost
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.policy_workers import PolicyWorker
from workers.protocol import WorkerSpec

Weights = Mapping[str, Tensor]


class Played:
    """One iteration of a run, and each policy's weights before and after it."""

    def __init__(self, config: RunConfig, home: Path) -> None:
        self.proxies = {
            name: PolicyWorker(WorkerSpec(name, name, config, home), silent) for name in config.used_policies
        }
        pool = EnvironmentHost(config.environment, config.run.seed)
        self.coordinator = RolloutCoordinator(config, self.proxies, pool, side_by_side=False)
        self.coordinator.start(None)
        before = {name: weights(proxy) for name, proxy in self.proxies.items()}
        self.collected = self.coordinator.collect(1)
        self.updated = self.coordinator.update(1)
        self.coordinator.publish(1)
        self.moved = {name: differ(before[name], weights(proxy)) for name, proxy in self.proxies.items()}
        self.start = before

    def versions(self) -> set[tuple[str, int]]:
        """(policy, version) of all tokens that the next iteration samples."""
        documents = self.coordinator.collect(2).transcripts
        return {
            (turn["policy"], version)
            for document in documents
            for turn in document["turns"]
            for candidate in turn["candidates"]
            for version in candidate["versions"]
        }


def weights(proxy: PolicyWorker) -> Weights:
    state: Weights = proxy.engine.model.state_dict()
    return {name: tensor.clone() for name, tensor in state.items()}


def differ(one: Weights, other: Weights) -> bool:
    return any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


def small(preset: str, model: Path, **overrides: Any) -> RunConfig:
    """A preset with few tasks, every policy from one small model."""
    whole = load_config(preset)
    models = {f"policies.{name}.model": str(model) for name in whole.policies}
    batches = {f"policies.{name}.learner.minibatches": 1 for name in whole.policies}
    little = {"rollout.tasks": 6, "rollout.group_size": 4, "reporting.episodes_per_iteration": 6}
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_config(preset, models | batches | little | dict(TINY_GRID) | given)


def test_full_model_per_role_trains_both(little_model: Path, tmp_path: Path) -> None:
    played = Played(small_config(little_model), tmp_path)
    assert played.moved == {"planner": True, "executor": True}
    assert differ(weights(played.proxies["planner"]), weights(played.proxies["executor"]))
    assert played.versions() == {("planner", 1), ("executor", 1)}


def test_one_shared_policy_speaks_for_all_roles_and_learns_from_all(
    little_model: Path, tmp_path: Path
) -> None:
    """Prompt only: the roles differ in their prompts."""
    config = small_config(
        little_model,
        team__roles__executor__policy="planner",
        team__roles__planner__prompt="goal",
        team__roles__executor__prompt="free",
    )
    played = Played(config, tmp_path)
    assert played.moved == {"planner": True}
    turns = [turn for document in played.collected.transcripts for turn in document["turns"]]
    told = {(turn["role"], turn["policy"], turn["messages"][0]["content"]) for turn in turns}
    assert told == {("planner", "planner", "goal"), ("executor", "planner", "free")}
    learnt = {(turn["role"]) for turn in turns}
    assert learnt == {"planner", "executor"}
    assert list(played.updated.metrics) == ["planner"]


@pytest.mark.parametrize("frozen", ["planner", "executor"])
def test_a_frozen_role_s_weights_do_not_change(frozen: str, little_model: Path, tmp_path: Path) -> None:
    other = {"planner": "executor", "executor": "planner"}[frozen]
    played = Played(small_config(little_model, **{f"team__roles__{frozen}__trained": False}), tmp_path)
    assert played.moved == {frozen: False, other: True}
    assert list(played.updated.metrics) == [other]
    assert played.versions() == {(frozen, 0), (other, 1)}


def test_a_frozen_role_of_a_shared_policy_teaches_it_nothing(little_model: Path, tmp_path: Path) -> None:
    """The policy learns as if the frozen role's turns had not been: from the other role's groups alone."""
    config = small_config(
        little_model, team__roles__executor__policy="planner", team__roles__executor__trained=False
    )
    played = Played(config, tmp_path)
    assert played.moved == {"planner": True}
    figures = [
        turn
        for annotation in played.updated.annotations
        for turn in annotation["turns"]
        if turn.get("ratios")
    ]
    documents = {document["episode"]: document for document in played.collected.transcripts}
    assert figures
    for annotation in played.updated.annotations:
        for turn in annotation["turns"]:
            role = documents[annotation["episode"]]["turns"][turn["turn"]]["role"]
            assert role == "planner" or not turn.get("ratios")


def test_roles_may_have_models_of_different_sizes(little_model: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    recipe = TinyRecipe(hidden_size=48, layers=1, heads=3, steps=4, batch=16)
    make_tiny(small_config(little_model).environment, recipe, wide, silent)
    played = Played(small_config(little_model, policies__executor__model=str(wide)), tmp_path)
    assert played.moved == {"planner": True, "executor": True}
    width = {name: state["model.embed_tokens.weight"].shape[1] for name, state in played.start.items()}
    assert width == {"planner": 32, "executor": 48}


def test_one_agent_plays_alone_over_several_turns(little_model: Path, tmp_path: Path) -> None:
    played = Played(small("plan_path_single", little_model), tmp_path)
    assert played.moved == {"walker": True}
    turns = [turn for document in played.collected.transcripts for turn in document["turns"]]
    assert {turn["role"] for turn in turns} == {"walker"}
    assert max(turn["index"] for turn in turns) == 1
    assert all(" ; up " in turn["messages"][-1]["content"] for turn in turns), "it sees goal and walls"


def test_three_agents_each_with_weights_of_its_own(little_model: Path, tmp_path: Path) -> None:
    played = Played(small("plan_path_trio", little_model), tmp_path)
    assert played.moved == {"planner": True, "scout": True, "executor": True}
    assert {role for role, counts in played.updated.groups.items() if counts["total"]} == {
        "planner",
        "scout",
        "executor",
    }
