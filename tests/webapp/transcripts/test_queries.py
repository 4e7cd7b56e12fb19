"""The query language of transcripts, against a naive reading of the same episodes."""

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from tests.webapp.transcripts.test_episodes import candidate, learnt, played, turn
from webapp.accounts.models import User
from webapp.common.query_language import FilterError
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.query import query_condition
from webapp.transcripts.services import annotations_store, episodes_store, staleness_store

Facts = dict[str, Any]


def names(run: Run, text: str) -> set[str]:
    return set(Episode.objects.filter(query_condition(run, text), run=run).values_list("name", flat=True))


def random_turn(draw: random.Random, index: int, role: str) -> dict[str, Any]:
    rewards = [draw.choice([-1.0, 0.0, 0.5, "NaN"]) for _ in range(draw.choice([1, 2, 3]))]
    if draw.random() < 0.4:
        rewards = [rewards[0]] * len(rewards)
    candidates = [
        candidate(
            draw.choice(["north", "south wall"]), reward=reward, stop_reason=draw.choice(["stop", "length"])
        )
        for reward in rewards
    ]
    executed = draw.choice([-1, *range(len(candidates))])
    return turn(index, role) | {"candidates": candidates, "executed": executed}


def random_episode(draw: random.Random, number: int) -> Facts:
    roles = draw.sample(["planner", "executor", "critic"], draw.randint(0, 3))
    turns = [random_turn(draw, index, role) for index in range(draw.randint(0, 3)) for role in roles]
    return {
        "episode": f"1-{number}-train-0", "iteration": draw.randint(0, 4), "success": draw.choice([True, False, None]),
        "kind": draw.choice(["train", "eval", "eval_sampled"]), "failed": draw.random() < 0.2, "probe": draw.random() < 0.3,
        "truncated": draw.random() < 0.3, "episode_return": draw.choice([-1.0, 0.0, 2.5, "NaN", "Infinity"]),
        "rewards": {role: draw.choice([-1.0, 0.0, 1.5, "NaN"]) for role in roles},
        "versions": {role: draw.randint(0, 3) for role in roles}, "tokens": draw.randint(0, 9),
        "started": 10.0, "ended": 10.0 + draw.randint(0, 4), "turns": turns, "outcome": draw.choice(["solved", "hit a wall"]),
        "advantages": {index: [draw.choice([-1.0, 0.0, 1.0]) for _ in turn["candidates"]]
                       for index, turn in enumerate(turns) if draw.random() < 0.6},
        "staleness": draw.choice([None, 0, 2]), "label": draw.choice(["", "good", "bad"]),
    }  # fmt: skip


def of_turn(facts: Facts, index: int) -> Facts:
    """The figures of a turn, computed from scratch."""
    shown = facts["turns"][index]
    rewards = [float(each["reward"]) for each in shown["candidates"]]
    figures: Facts = {"role": shown["role"], "candidates": len(rewards)}
    if not any(reward != reward for reward in rewards):
        figures["mean"] = sum(rewards) / len(rewards)
        if len(rewards) > 1:
            figures["variance"] = sum((reward - figures["mean"]) ** 2 for reward in rewards) / (
                len(rewards) - 1
            )
    if (at := shown["executed"]) >= 0:
        figures |= {
            "reward": rewards[at],
            "tokens": 2,
            "truncated": shown["candidates"][at]["stop_reason"] == "length",
        }
        if index in facts["advantages"]:
            figures["advantage"] = facts["advantages"][index][at]
    return figures


def values(facts: Facts, field: str) -> list[Any]:
    """All values that a field has in an episode."""
    turns = [of_turn(facts, index) for index in range(len(facts["turns"]))]
    owner, _, figure = field.rpartition(".")
    role, _, part = owner.rpartition(".")
    if part in ("turn", "group"):
        return [each[figure] for each in turns if figure in each and role in ("", "role", each["role"])]
    if owner:
        roles = list(facts["rewards"]) if owner == "role" else [owner]
        return [value for name in roles for value in of_role(facts, turns, name, figure)]
    column = {"return": "episode_return", "error": "failed"}.get(field, field)
    if field == "turns":
        return [len({each["index"] for each in facts["turns"]})]
    if field == "duration":
        return [facts["ended"] - facts["started"]]
    return [facts[column]]


def of_role(facts: Facts, turns: list[Facts], role: str, figure: str) -> list[Any]:
    if figure in ("reward", "version"):
        figures = facts[f"{figure}s"]
        return [figures[role]] if role in figures else []
    own = [each for each in turns if each["role"] == role]
    if figure == "advantage":
        known = [each["advantage"] for each in own if "advantage" in each]
        return [sum(known) / len(known)] if known else []
    if not own:
        return []
    candidates = sum(len(each["candidates"]) for each in facts["turns"] if each["role"] == role)
    return [
        {
            "turns": len(own),
            "tokens": 2 * candidates,
            "truncated": any(each.get("truncated") for each in own),
        }[figure]
    ]


def holds(facts: Facts, field: str, operator: str, wanted: Any) -> bool:
    if operator == "!=":
        return not holds(facts, field, "=", wanted)
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    known = [value for value in values(facts, field) if value is not None]
    if not isinstance(wanted, bool | str):
        known = [float(value) for value in known if abs(float(value)) < float("inf")]
    return any(tests[operator](value, wanted) for value in known)


NUMBERS = (
    "iteration", "return", "turns", "tokens", "staleness", "duration", "planner.reward", "executor.advantage", "critic.version",
    "planner.turns", "role.tokens", "role.reward", "nobody.reward", "turn.reward", "critic.turn.advantage", "group.variance",
    "planner.group.mean", "group.candidates", "turn.tokens",
)  # fmt: skip
FLAGS = ("success", "truncated", "error", "probe", "planner.truncated", "role.truncated", "turn.truncated")


def sentence(draw: random.Random, depth: int = 2) -> tuple[str, Callable[[Facts], bool]]:
    """A random query, and what it means."""
    kind = draw.random()
    if depth and kind < 0.35:
        (left, first), (right, second) = sentence(draw, depth - 1), sentence(draw, depth - 1)
        if draw.random() < 0.5:
            return f"({left} and {right})", lambda facts: first(facts) and second(facts)
        return f"({left} or {right})", lambda facts: first(facts) or second(facts)
    if depth and kind < 0.5:
        inner, test = sentence(draw, depth - 1)
        return f"not {inner}", lambda facts: not test(facts)
    if kind < 0.7:
        field, wanted = draw.choice(FLAGS), draw.random() < 0.5
        return f"{field} = {str(wanted).lower()}", lambda facts: holds(facts, field, "=", wanted)
    field, operator = draw.choice(NUMBERS), draw.choice(["=", "!=", "<", "<=", ">", ">="])
    number = draw.choice([-1, 0, 0.5, 1, 2, 3])
    return f"{field} {operator} {number}", lambda facts: holds(facts, field, operator, number)


@pytest.fixture
def episodes(run: Run, user: User) -> list[Facts]:
    draw = random.Random(7)
    made = [random_episode(draw, number) for number in range(60)]
    for number, facts in enumerate(made):
        outer = {
            name: value
            for name, value in facts.items()
            if name not in ("advantages", "staleness", "label", "episode")
        }
        event = played(facts["episode"], **outer)
        notes = [{"turn": index, "advantages": row} for index, row in facts["advantages"].items()]
        parts = [learnt(facts["episode"], *notes[:1]), learnt(facts["episode"], *notes[1:])]
        if number % 2:
            annotations_store(run, number, parts)
            episodes_store(run, number, [event])
        else:
            episodes_store(run, number, [event])
            annotations_store(run, number, parts)
        if facts["label"]:
            row = Episode.objects.get(run=run, name=facts["episode"])
            EpisodeNote.objects.create(episode=row, author=user, label=facts["label"])
    staleness_store(run, {facts["episode"]: facts["staleness"] for facts in made} | {"unknown": 3})
    return made


def test_random_queries_mean_what_they_say(run: Run, episodes: list[Facts]) -> None:
    draw = random.Random(11)
    sizes = set()
    for _ in range(400):
        text, test = sentence(draw)
        expected = {facts["episode"] for facts in episodes if test(facts)}
        assert names(run, text) == expected, text
        sizes.add(len(expected))
    assert len(sizes) > 30, "the queries tell episodes apart"
    for field in (*NUMBERS, *FLAGS):
        value = "true" if field in FLAGS else "0"
        expected = {
            facts["episode"]
            for facts in episodes
            if holds(facts, field, "=", value == "true" if field in FLAGS else 0)
        }
        assert names(run, f"{field} = {value}") == expected, field


def test_texts_flags_labels_and_words(run: Run, episodes: list[Facts]) -> None:
    def of(test: Callable[[Facts], bool]) -> set[str]:
        return {facts["episode"] for facts in episodes if test(facts)}

    def said(facts: Facts, text: str) -> bool:
        return any(text in each["text"] for turn in facts["turns"] for each in turn["candidates"])

    for text, test in {
        "kind = eval": lambda facts: facts["kind"] == "eval",
        "kind in [eval, eval_sampled]": lambda facts: facts["kind"] != "train",
        "outcome = unsolved": lambda facts: facts["success"] is False and not facts["failed"],
        "outcome = error": lambda facts: facts["failed"],
        "outcome ~ WALL": lambda facts: "wall" in facts["outcome"],
        "probe": lambda facts: facts["probe"],
        "error and not truncated": lambda facts: facts["failed"] and not facts["truncated"],
        "role = critic": lambda facts: "critic" in facts["rewards"],
        "role != critic": lambda facts: "critic" not in facts["rewards"],
        "label = good": lambda facts: facts["label"] == "good",
        "label != good": lambda facts: facts["label"] != "good",
        "text ~ north": lambda facts: said(facts, "north"),
        "not text ~ 'south wall'": lambda facts: not said(facts, "south wall"),
        '"south wall" and zebra': lambda facts: False,
        "task ~ T- and title = 'to the goal'": lambda facts: True,
        "environment = plan_path": lambda facts: True,
        "duration >= 2": lambda facts: facts["ended"] >= 12,
    }.items():
        assert names(run, text) == of(test), text


def test_a_role_has_the_version_of_its_policy(run: Run) -> None:
    run.config["team"]["roles"]["planner"]["policy"] = "shared"
    episodes_store(run, 1, [played("a", versions={"shared": 4}), played("b", versions={"planner": 4})])
    assert names(run, "planner.version = 4") == {"a"}


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("colour = red", 1, "'colour' is not a field: use kind"),
        ("turns >= 3 and planner.colour = 1", 16, "use planner.reward, planner.advantage"),
        ("planner.turn.colour = 1", 1, "use planner.turn.reward"),
        ("group.reward = 1", 1, "use group.variance"),
        ("kind = evaluation", 1, "a kind is one of train, eval, eval_sampled"),
        ("outcome = failure", 1, "solved, unsolved or error"),
        ("success = maybe", 1, "true or false"),
        ("planner.reward > high", 1, "number"),
        ("planner.reward < 1e999", 1, "large"),
        ("planner.truncated = 1", 1, "true or false"),
        ("return ~ 1", 1, "number"),
        ("text = north", 1, "~"),
        ("text ~ '!!'", 1, "word"),
        ("role ~ plan", 1, "role"),
        ("turns >=", 9, "incomplete"),
        ("turns > 1)", 10, "unexpected"),
    ],
)
def test_an_invalid_query_is_refused_with_its_column(run: Run, text: str, column: int, words: str) -> None:
    with pytest.raises(FilterError) as error:
        names(run, text)
    assert error.value.column == column and words in error.value.fields["query"]


def test_hostile_texts_stay_values(run: Run) -> None:
    episodes_store(run, 1, [played("a")])
    for text in ("it's", "') or true --", "\\", "%s", "${x}", "$.*", "' || '"):
        for field in ("task", "outcome ", "label", "error"):
            assert names(run, f'{field} ~ "{text}"') == set()
        assert names(run, f'"{text}x{text}"' if text == "it's" else "task = '$.*'") == set()


def test_labels_are_hidden_from_visitors(run: Run) -> None:
    with pytest.raises(FilterError, match="share link"):
        query_condition(run, "label = good", noted=False)


def test_the_migration_fills_old_episodes(run: Run, episodes: list[Facts]) -> None:
    stored = {row.name: (row.roles, row.groups) for row in Episode.objects.all()}
    Episode.objects.update(roles={}, groups=[])
    import_module("webapp.transcripts.migrations.0009_figures_of_old_episodes").fill(apps, None)
    assert {row.name: (row.roles, row.groups) for row in Episode.objects.all()} == stored
