"""Runs with one planted fault each, and the findings that name it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from training_core.llm.environments.base import StepResult
from training_core.llm.environments.plan_path.game import PlanPathEnvironment
from training_core.llm.generation import torch_engine
from training_core.seeding import keyed_uniform

Act = Any
BASE, ITERATIONS = "plan_path_duo", 20
SMALL = ("rollout.tasks=16", "evaluation.episodes=64", "evaluation.every=5", "evaluation.sampled=false")
"""Of all runs, so that one takes seconds."""
_ACT = PlanPathEnvironment.act


@dataclass(frozen=True)
class Case:
    """A run with a planted fault."""

    about: str
    """The fault in words."""
    names: frozenset[str]
    """Rules of which at least one must have a finding."""
    overrides: tuple[str, ...] = ()
    planted: Any = nullcontext
    """Makes the context in which the run is played."""
    whose: str = ""
    """Policy or role that the finding must be about; empty if the fault is that of the team."""


def _acting(change: Any) -> Any:
    """Return the context in which `change(environment, role, answer, result)` replaces each result of an answer."""

    def act(self: PlanPathEnvironment, role: str, answer: str) -> StepResult:
        return change(self, role, answer, _ACT(self, role, answer))  # type: ignore[no-any-return]

    return lambda: patch.object(PlanPathEnvironment, "act", act)


def _reversed(whose: str) -> Any:
    def change(_: Any, role: str, __: str, result: StepResult) -> StepResult:
        if role != whose:
            return result
        return replace(result, local_reward=-result.local_reward, team_reward=-result.team_reward)

    return _acting(change)


def _paid_by_length(_: Any, __: str, answer: str, result: StepResult) -> StepResult:
    return replace(result, local_reward=0.2 * len(answer.split()), team_reward=0.0)


def _same_for_all(_: Any, __: str, ___: str, result: StepResult) -> StepResult:
    return replace(result, local_reward=0.5, team_reward=0.0)


def _never(environment: Any, _: str, __: str, result: StepResult) -> StepResult:
    environment.success = False
    return replace(result, local_reward=0.0, team_reward=0.0, success=False)


def _raises(environment: Any, role: str, answer: str, result: StepResult) -> StepResult:
    if role == "executor" and hash((environment.task_id, answer)) % 50 == 0:
        raise TimeoutError("the verifier did not answer")
    return result


def _accepted(environment: Any, role: str, _: str, result: StepResult) -> StepResult:
    """Every episode ends after the first answer of the executor, with success."""
    done = role == "executor"
    environment.success = environment.done = done
    return replace(result, local_reward=1.0, team_reward=float(done), success=done, done=done)


@contextmanager
def _ignored() -> Iterator[None]:
    """The planner's answer is replaced by a constant before it reaches the environment."""

    def act(self: PlanPathEnvironment, role: str, answer: str) -> StepResult:
        return _ACT(self, role, "north" if role == "planner" else answer)

    with patch.object(PlanPathEnvironment, "act", act):
        yield


@contextmanager
def _hotter() -> Iterator[None]:
    """The engine samples, and reports, at another temperature than the learner assumes."""
    ours = torch_engine.tempered_log_probs

    def tempered(logits: Any, temperature: float, *rest: Any) -> Any:
        return ours(logits, 1.5 * temperature, *rest)

    with patch.object(torch_engine, "tempered_log_probs", tempered):
        yield


class Erring:
    """An agent whose program raises in most of its episodes."""

    async def run(self, data: dict[str, Any], *, client: Any, **kwargs: Any) -> float:
        talk = [{"role": "user", "content": data["observations"]["planner"]}]
        plan = await client.chat.completions.create(model="planner", messages=talk)
        told = plan.choices[0].message.content or ""
        said = [{"role": "user", "content": f"plan {told}"}]
        moves = await client.chat.completions.create(model="executor", messages=said)
        if keyed_uniform(*map(ord, told + str(data.get("task", "")))) < 0.8:
            raise RecursionError("limit of 25 steps reached")
        return f"{told} {moves.choices[0].message.content}".split().count("up") / 4


def _rules(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _each(setting: str) -> tuple[str, ...]:
    return tuple(f"policies.{name}.{setting}" for name in ("planner", "executor"))


AGENT = (
    "workflow.type=agent",
    "workflow.path=tests.diagnosis.sabotage:Erring",
    "workflow.failure_reward=0.0",
)
CASES: dict[str, Case] = {
    "learning_rate": Case(
        "learning rate 300 times as high",
        _rules("kl_blow_up success_fell ratio_tails clip_fraction not_a_number"),
        (*_each("learner.learning_rate=0.3"), *_each("learner.final_learning_rate=0.03")),
    ),
    "sign_executor": Case(
        "reward of the executor with the wrong sign",
        _rules("return_rises_success_falls success_fell"),
        planted=_reversed("executor"),
    ),
    "sign_planner": Case(
        "reward of the planner with the wrong sign",
        _rules("return_rises_success_falls success_fell"),
        planted=_reversed("planner"),
    ),
    "temperature": Case(
        "temperature 1.5 times as high in the engine as in the learner",
        _rules("mismatch"),
        planted=_hotter,
    ),
    "length": Case(
        "reward by the number of words",
        _rules("length_hacking return_rises_success_falls success_fell truncation"),
        planted=_acting(_paid_by_length),
    ),
    "always_true": Case(
        "verifier that accepts everything", _rules("no_spread too_easy"), planted=_acting(_accepted)
    ),
    "always_false": Case(
        "verifier that refuses everything", _rules("no_spread too_hard"), planted=_acting(_never)
    ),
    "zero_variance": Case(
        "the same reward for every answer", _rules("no_spread too_easy"), planted=_acting(_same_for_all)
    ),
    "collapsed_role": Case(
        "a planner that gives one answer only (temperature 0.02)",
        _rules("entropy_collapse no_spread too_easy too_hard unpaid_role"),
        ("team.roles.planner.sampling.temperature=0.02",),
        whose="planner",
    ),
    "ignored_role": Case(
        "a planner whose answers reach nobody",
        _rules("no_spread too_easy too_hard unpaid_role"),
        planted=_ignored,
        whose="planner",
    ),
    "truncated": Case(
        "answers of the executor end after one token",
        _rules("truncation"),
        ("team.roles.executor.sampling.max_tokens=1",),
        whose="executor",
    ),
    "dead_adapter": Case(
        "adapters whose weights do not move",
        _rules("unchanged_policy"),
        (
            *_each("adapter.type=lora"),
            *_each("learner.learning_rate=1e-13"),
            *_each("learner.final_learning_rate=1e-14"),
        ),
    ),
    "exceptions": Case(
        "an environment that raises in some episodes", _rules("failed_episodes"), planted=_acting(_raises)
    ),
    "agent_errors": Case("an agent's program that raises in most episodes", _rules("agent_errors"), AGENT),
}
"""Planted faults by name."""
MISSING: tuple[str, ...] = (
    "held-out tasks among the training tasks",
    "a loss mask over the wrong tokens",
    "a judge whose scale drifts",
    "KL without a reference",
    "seeds that are not applied",
    "an environment that leaks the answer",
    "an optimizer that is lost on resume",
)
"""Faults that no rule is meant to name."""
HEALTHY: dict[str, tuple[str, tuple[str, ...]]] = {
    "plan_path_duo": (BASE, ()),
    "shared policy": (BASE, ("team.roles.executor.policy=planner",)),
    "LoRA": (BASE, _each("adapter.type=lora")),
    "GRPO": (BASE, ("workflow.type=episodes", "algorithm.type=grpo")),
    "plan_path_single": ("plan_path_single", ()),
    "plan_path_ppo": ("plan_path_ppo", ()),
    "arithmetic": ("arithmetic", ()),
    "sudoku": ("sudoku", ()),
    "sokoban": ("sokoban", ()),
    "blocksworld": ("blocksworld", ()),
}
"""Runs without a fault: name -> preset and overrides."""
