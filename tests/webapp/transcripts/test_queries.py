"""The query language of transcripts, against a naive reading of the same episodes; queries on pages, in the API and in files."""

import csv
import io
import json
import random
import re
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import text_of
from tests.webapp.transcripts.test_episodes import candidate, learnt, played, turn
from webapp.accounts.models import Membership, Project, User
from webapp.common.query_language import FilterError
from webapp.metrics.models import Series
from webapp.runs.models import Run
from webapp.transcripts.curve import wilson
from webapp.transcripts.models import Episode, EpisodeNote, SavedQuery
from webapp.transcripts.query import query_condition
from webapp.transcripts.services import annotations_store, episodes_store, staleness_store

WRONG_WALK = "planner.reward > 0 and executor.reward <= 0"


def text_of_page(page: str) -> str:
    words = " ".join(re.sub("<[^>]*>", " ", page).replace("&#x27;", "'").split())
    return words.replace(" .", ".").replace(" ,", ",")


@pytest.fixture
def many(run: Run) -> Run:
    """130 training episodes of 13 iterations, in 40 % of which the plan is right and the walk wrong; three evaluations."""
    events = [
        played(
            f"1-{number // 10}-train-{number % 10}", iteration=number // 10, success=number % 10 >= 4,
            rewards={"planner": 1.0, "executor": -1.0 if number % 10 < 4 else 0.5}, episode_return=float(number % 7),
        )
        for number in range(130)
    ]  # fmt: skip
    events += [
        played(f"1-{number}-eval-0", iteration=number, kind="eval", probe=True) for number in (0, 5, 10)
    ]
    episodes_store(run, 1, events)
    Series.objects.create(run=run, key="progress/episodes", last_value=9000)
    return run


@pytest.fixture
def visit(client: Client, user: User, many: Run) -> Any:
    client.force_login(user)

    def page(path: str, **query: str) -> str:
        answer = client.get(f"/runs/{many.pk}/transcripts/{path}", query)
        assert answer.status_code == 200
        return answer.content.decode()

    return page


@pytest.fixture
def download(client: Client, visit: Any, many: Run) -> Any:
    def read(path: str, **query: str) -> str:
        return b"".join(client.get(f"/runs/{many.pk}/transcripts/{path}", query)).decode()

    return read


def test_the_stream_shows_matches_and_says_what_they_are_of(visit: Any) -> None:
    text = text_of_page(visit("", query=WRONG_WALK, iteration_min="10"))
    assert (
        "12 of 133 kept match. Transcripts are samples: 130 of 9,000 training episodes played (8 per iteration), 3 of"
        in text
    )
    assert "10·3" in text and "10·4" not in text
    assert "133 kept. Transcripts are samples" in text_of_page(visit(""))
    assert "Invalid query: 'colour' is not a field" in text_of_page(visit("", query="colour = 1"))


def test_the_api_filters_and_refuses_with_a_column(api: APIClient, many: Run) -> None:
    episodes = f"/api/v1/runs/{many.pk}/episodes/"
    answer = api.get(episodes, {"query": WRONG_WALK, "limit": 100}).json()["results"]
    assert len(answer) == 52 and all(each["rewards"]["executor"] < 0 for each in answer)
    assert answer[0]["roles"]["planner"]["turns"] == 2 and "groups" not in answer[0]
    refused = api.get(episodes, {"query": "turns > 1 and colour = 1"})
    assert refused.status_code == 400 and "(column 15)" in refused.json()["errors"]["query"]
    for path in ("export/", "curve/", "table/", "table/export/"):
        assert api.get(f"{episodes}{path}", {"query": "colour = 1"}).status_code == 400, path
    assert len(b"".join(api.get(f"{episodes}export/", {"query": WRONG_WALK})).splitlines()) == 52
    assert len(api.get(episodes, {"outcome": "failed"}).json()["results"]) == 0, "the earlier name of error"


def test_completion_knows_roles_and_values(api: APIClient, many: Run) -> None:
    def options(text: str) -> list[str]:
        answer = api.get(f"/api/v1/runs/{many.pk}/episodes/complete/", {"text": text}).json()
        return [option["text"] for option in answer["options"]]

    assert "executor.reward" in options("turns > 1 and exec")
    assert options("kind = ") == ["train", "eval", "eval_sampled"] and options("group.v") == [
        "group.variance", "planner.group.variance", "executor.group.variance",
    ]  # fmt: skip


def test_the_curve_counts_shares_with_intervals(api: APIClient, many: Run, visit: Any, download: Any) -> None:
    curve = api.get(
        f"/api/v1/runs/{many.pk}/episodes/curve/", {"query": WRONG_WALK, "base": "iteration < 12"}
    ).json()
    train, greedy = curve["kinds"]
    assert [point["share"] for point in train["points"]] == [0.4] * 12
    assert (curve["matching"], curve["of"], curve["counts"]["played"]) == (48, 123, 9000)
    assert [point["first"] for point in greedy["points"]] == [0, 5, 10]
    point = train["points"][3]
    assert (point["low"], point["high"]) == pytest.approx((0.16818, 0.68733), abs=1e-4), "Wilson: 4 of 10"
    assert "4 of 133 kept match" in text_of_page(visit(point["address"].partition("transcripts/")[2]))
    page = text_of_page(visit("curve/", query=WRONG_WALK))
    assert "52 of 133 match" in page and "not of all episodes played" in page
    rows = list(csv.reader(io.StringIO(download("curve.csv", query=WRONG_WALK))))
    assert rows[0][0] == "kind" and len(rows) == 1 + 13 + 3
    assert "Invalid query" in visit("curve/", query="true", base="turns >")
    Episode.objects.filter(run=many, name="1-12-train-0").update(iteration=600)
    wide = api.get(f"/api/v1/runs/{many.pk}/episodes/curve/", {"query": WRONG_WALK}).json()
    assert wide["width"] == 11 and wide["of"] == 133


def test_wilson_intervals_by_hand() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-4)


def test_the_table_sorts_pages_and_exports(api: APIClient, many: Run, visit: Any, download: Any) -> None:
    page = visit("table/", sort="-return")
    assert "return (shaped)" in page and "page 1 of 2" in text_of_page(page)
    table = f"/api/v1/runs/{many.pk}/episodes/table/"
    asked = {"columns": "success,return,executor.reward,staleness,duration", "sort": "-return", "limit": "40"}
    rows: list[dict[str, Any]] = []
    address = table
    while address:
        answer = api.get(address, asked if address == table else None).json()
        rows, address = rows + answer["results"], answer["next"]
    assert len({row["id"] for row in rows}) == 133
    keys = [(row["success"], row["return"], row["id"]) for row in rows]
    assert keys == sorted(keys, reverse=True), "solved episodes first, then returns, then the newest"
    for column in [
        "executor.reward",
        "planner.advantage",
        "success",
        "kind",
        "planner.version",
        "duration",
        "error",
    ]:
        found = [
            api.get(table, {"columns": column, "sort": sort, "limit": "200"}).json()["results"]
            for sort in (column, f"-{column}")
        ]
        for rows_, less in zip(found, (lambda a, b: a <= b, lambda a, b: a >= b), strict=True):
            known = [row[column] for row in rows_ if row[column] is not None]
            assert (
                all(less(a, b) for a, b in pairwise(known))
                and known == [row[column] for row in rows_][: len(known)]
            ), column
    upto = Episode.objects.filter(run=many).order_by("pk")[50].pk
    assert "51 episodes" in text_of_page(visit("table/", upto=str(upto)))
    lines = download("table.jsonl", query="kind = eval", columns="iteration,planner.reward").splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [10, 5, 0]
    text = download("table.csv", query="kind = eval", columns="iteration,planner.reward", sort="iteration")
    cells = [row[2:] for row in csv.reader(io.StringIO(text))]
    assert cells == [["iteration", "planner.reward"], ["0", "1.5"], ["5", "1.5"], ["10", "1.5"]]
    assert "Invalid columns" in visit("table/", columns="colour")
    wrong = text_of_page(visit("table/", sort="colour"))
    assert "Invalid order" in wrong and "0 episodes" in wrong and "133 episodes" not in wrong
    assert api.get(table, {"columns": "colour"}).status_code == 400


def test_saved_queries_belong_to_a_person_or_a_project(
    api: APIClient, client: Client, many: Run, visit: Any, project: Project, stranger: User
) -> None:
    body = {"name": "wrong walk", "query": WRONG_WALK, "project": project.slug}
    saved = api.post("/api/v1/queries/", body, format="json")
    assert saved.status_code == 201
    assert api.post("/api/v1/queries/", body, format="json").status_code == 400
    assert api.post("/api/v1/queries/", body | {"replace": True}, format="json").status_code == 201
    refused = api.post("/api/v1/queries/", {"name": "x", "query": "colour = 1"}, format="json")
    assert "not a field" in refused.json()["errors"]["query"]
    assert "wrong walk" in visit("") and 'aria-current="page"' in visit("", query=WRONG_WALK)
    answer = client.post(f"/runs/{many.pk}/transcripts/queries/", {"name": "mine", "query": "truncated"})
    assert answer.status_code == 302 and SavedQuery.objects.filter(name="mine", project=None).exists()
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    api.force_authenticate(stranger)
    names = [each["name"] for each in api.get("/api/v1/queries/").json()["results"]]
    assert names == ["wrong walk"], "not those of other people"
    pk = saved.json()["id"]
    assert api.delete(f"/api/v1/queries/{pk}/").status_code == 403
    client.post(f"/runs/{many.pk}/transcripts/queries/{pk}/remove/")
    assert not SavedQuery.objects.filter(pk=pk).exists()


def test_equal_candidates_are_folded(ada: Client, run: Run) -> None:
    same = [candidate("south south", reward=0.5) for _ in range(7)]
    other = candidate("north", reward=1.5)
    turns = [turn(0, "planner") | {"candidates": [*same[:3], other, *same[3:]], "executed": 4}]
    episodes_store(run, 1, [played("1-3-train-0", turns=turns)])
    episode = Episode.objects.get()
    address = f"/runs/{run.pk}/episodes/{episode.pk}/tree/"
    page = ada.get(address).content.decode()
    assert page.count('data-card="') == 2 and "× 7" in text_of_page(page)
    assert page.count('id="node-1-') == 2
    assert 'href="?turn=1&amp;candidate=5"' in page, "the executed one of the seven"
    shown = text_of(ada.get(f"{address}?candidate=4"))
    assert "north" in shown


Facts = dict[str, Any]


def names(run: Run, text: str) -> set[str]:
    return set(Episode.objects.filter(query_condition(run, text), run=run).values_list("name", flat=True))


def random_turn(draw: random.Random, index: int, role: str) -> dict[str, Any]:
    rewards = [draw.choice([-1.0, 0.0, 0.5, "NaN"]) for _ in range(draw.choice([1, 2, 3]))]
    if draw.random() < 0.4:
        rewards = [rewards[0]] * len(rewards)
    texts, reasons = ["north", "south wall"], ["stop", "length"]
    candidates = [
        candidate(draw.choice(texts), reward=reward, stop_reason=draw.choice(reasons)) for reward in rewards
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
            squares = sum((reward - figures["mean"]) ** 2 for reward in rewards)
            figures["variance"] = squares / (len(rewards) - 1)
    if (at := shown["executed"]) >= 0:
        truncated = shown["candidates"][at]["stop_reason"] == "length"
        figures |= {"reward": rewards[at], "tokens": 2, "truncated": truncated}
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
    truncated = any(each.get("truncated") for each in own)
    return [{"turns": len(own), "tokens": 2 * candidates, "truncated": truncated}[figure]]


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
    aside = ("advantages", "staleness", "label", "episode")
    for number, facts in enumerate(made):
        outer = {name: value for name, value in facts.items() if name not in aside}
        event = played(facts["episode"], **outer)
        notes = [{"turn": index, "advantages": row} for index, row in facts["advantages"].items()]
        parts = [learnt(facts["episode"], *notes[:1]), learnt(facts["episode"], *notes[1:])]
        acts = [lambda: annotations_store(run, number, parts), lambda: episodes_store(run, number, [event])]  # noqa: B023
        for act in acts if number % 2 else reversed(acts):
            act()
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
        text, value = ("true", True) if field in FLAGS else ("0", 0)
        expected = {facts["episode"] for facts in episodes if holds(facts, field, "=", value)}
        assert names(run, f"{field} = {text}") == expected, field


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
    import_module("webapp.transcripts.migrations.0011_cursors_of_a_run").fill(apps, None)
    assert {row.name: (row.roles, row.groups) for row in Episode.objects.all()} == stored
