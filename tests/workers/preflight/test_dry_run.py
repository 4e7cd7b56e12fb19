"""A dry run names roles that no reward reaches."""

from typing import Any

from training_core.config.files import load_config
from workers.preflight.dry_run import unpaid_roles
from workers.protocol import Collected, EpisodeFacts

ROOM = {"resources.environments_per_worker": 400}


def turn(role: str, *rewards: float, texts: str = "ab", **value: float) -> dict[str, Any]:
    group = [{"text": text, "reward": reward} | value for text, reward in zip(texts, rewards, strict=True)]
    return {"role": role, "candidates": group}


def facts(planner: float, executor: float) -> EpisodeFacts:
    rewards = {"planner": planner, "executor": executor}
    return EpisodeFacts(
        success=True, failed=False, episode_return=sum(rewards.values()), rewards=rewards, candidate_rewards={},
        candidates={}, cut=0, tokens=0, turns=1,
    )  # fmt: skip


def named(collected: Collected, **settings: Any) -> list[str]:
    config = load_config(
        "plan_path_duo", ROOM | {key.replace("__", "."): value for key, value in settings.items()}
    )
    return [finding["path"] for finding in unpaid_roles(config, collected)]


def test_a_role_whose_candidates_earn_the_same_is_named() -> None:
    unpaid = [turn("planner", 0.0, 0.0), turn("executor", 0.0, 1.0), turn("planner", 1.0, 1.0)]
    assert named(Collected([], [{"turns": unpaid}])) == ["team.roles.planner"]
    assert named(Collected([], [{"turns": unpaid}]), team__roles__planner__trained=False) == []
    paid = [*unpaid, turn("planner", 0.0, 1.0)]
    assert named(Collected([], [{"turns": paid}])) == []


def test_equal_answers_and_unpaid_teams_show_nothing() -> None:
    equal = [turn("planner", 0.0, 0.0, texts="aa"), turn("executor", 0.0, 1.0)]
    nobody = [turn("planner", 0.0, 0.0), turn("executor", 0.0, 0.0)]
    assert [named(Collected([], [{"turns": turns}])) for turns in (equal, nobody)] == [[], []]


def test_roles_of_whole_episodes_are_compared_by_their_returns() -> None:
    unpaid, paid = [facts(0.0, 1.0), facts(0.0, 0.0)], [facts(1.0, 1.0), facts(0.0, 0.0)]
    assert named(Collected(unpaid, []), workflow__type="episodes") == ["team.roles.planner"]
    assert named(Collected(paid, []), workflow__type="episodes") == []
