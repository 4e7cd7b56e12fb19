"""Configs and tables of runs by hand and by naive walks, and episodes of the same tasks."""

import json
from math import log10
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import elements, texts_of
from tests.webapp.transcripts.test_episodes import candidate, played, turn
from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import Project, User
from webapp.compare.choice import Choice
from webapp.compare.drawing import height_of, parallel_drawn
from webapp.compare.table import configs_differ, sections_of, table_read
from webapp.metrics.models import Series
from webapp.runs.configs import family_of
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.services import episodes_store


def made(user: User, project: Project, name: str, config: dict[str, Any], **facts: Any) -> Run:
    fields = {
        "project": project, "owner": user, "config": config, "family": family_of(config), "facts": facts,
    }  # fmt: skip
    return Run.objects.create(name=name, iterations=1, **fields)


def test_by_hand(user: User, project: Project) -> None:
    one = {"x": {"flag": True, "list": [1, 2], "deep": {"n": 1}}}
    other = {"run": {"seed": 0}, "x": {"flag": False, "list": [1, 3], "new": None}}
    first = made(user, project, "a", {"run": {"seed": 0}} | one, packages={"torch": "2"})
    second = made(user, project, "a", {"run": {"seed": 1}} | one, packages={"torch": "2"})
    third = made(user, project, "b", other, packages={"torch": "3"})
    found = configs_differ([first, second, third], "family")
    assert [group["label"] for group in found["groups"]] == ["a", "b"]
    cells = {
        field["path"]: [(cell["values"], cell["absent"]) for cell in field["cells"]]
        for field in found["fields"]
    }
    assert cells == {
        "run.seed": [([0, 1], False), ([0], False)],
        "x.list": [([[1, 2]], False), ([[1, 3]], False)],
        "x.deep.n": [([1], False), ([], True)],
        "x.new": [([], True), ([None], False)],
        "packages.torch": [(["2"], False), (["3"], False)],
        "x.flag": [([True], False), ([False], False)],
    }
    assert found["same"] == 0
    different = {section["name"]: section["different"] for section in sections_of(found)}
    assert different == {"run": 1, "x": 4, "packages": 1}
    whole = configs_differ([first, second], "run", everything=True)
    assert [field["path"] for field in whole["fields"] if not field["same"]] == ["run.seed"]
    assert whole["same"] == 4


def test_pages_api_and_strangers(client: Client, user: User, stranger: User, project: Project) -> None:
    configs = [
        load_config("plan_path_duo", {"rollout.group_size": size}).model_dump(mode="json") for size in (4, 8)
    ]
    runs = [made(user, project, "<b>duo</b>", config) for config in configs]
    query = {"runs": ",".join(run.pk for run in runs)}
    api = APIClient()
    api.force_authenticate(user)
    (field,) = api.get("/api/v1/compare/config/", query).json()["fields"]
    assert field["path"] == "rollout.group_size" and [cell["values"] for cell in field["cells"]] == [[4], [8]]
    everything = api.get("/api/v1/compare/config/", query | {"all": "1"}).json()
    assert len(everything["fields"]) == everything["same"] + 1 > 50
    client.force_login(user)
    page = client.get("/compare/config/", query)
    text = page.content.decode()
    assert page.status_code == 200 and "rollout.group_size" in text
    assert "rollout.tasks" not in text.split("<details")[1]
    assert "<b>duo" not in text and "&lt;b&gt;duo" in text
    same = client.get("/compare/config/", {"runs": runs[0].pk}).content.decode()
    assert "Their configs are the same" in same
    client.force_login(stranger)
    assert client.get("/compare/config/", query).status_code == 404


@pytest.fixture
def runs(user: User, project: Project) -> list[Run]:
    """Three settings; the last has no value of the metric."""
    made_runs = [
        made(
            user, project, f"r{place}", {"run": {"seed": place}, "a": {"rate": rate, "type": kind, "same": 1}}
        )
        for place, (rate, kind) in enumerate([(1e-4, "grpo"), (1e-3, "ppo"), (1e-2, "grpo")])
    ]
    for run, value in zip(made_runs, (0.2, 0.6, float("nan")), strict=True):
        Series.objects.create(run=run, key="eval/success", last_value=value)
    return made_runs


def test_axes_and_places_by_hand(runs: list[Run]) -> None:
    table = table_read(runs, Choice(by="run"))
    assert [(axis["name"], axis["kind"], axis["log"]) for axis in table["axes"]] == [
        ("a.rate", "number", True),
        ("a.type", "category", False),
        ("eval/success", "number", False),
    ]
    places = [row["places"] for row in table["rows"]]
    assert places[0] == [0, 0, 0] and places[1] == pytest.approx([0.5, 1, 1]) and places[2] == [1, 0, None]
    linear = table_read(runs, Choice(by="run", axes="a.rate:linear,run.seed"))
    assert linear["rows"][1]["places"] == pytest.approx([(1e-3 - 1e-4) / (1e-2 - 1e-4), 0.5])
    assert log10(linear["axes"][0]["high"]) == -2


def test_brushes_keep_runs(runs: list[Run]) -> None:
    def kept(brush: dict[str, Any]) -> list[str]:
        table = table_read(runs, Choice(by="run", brush=json.dumps(brush)))
        return [row["name"] for row in table["rows"] if row["kept"]]

    assert kept({"a.rate": [5e-4, 1]}) == ["r1", "r2"]
    assert kept({"a.type": ["grpo"], "a.rate": [0, 1e-3]}) == ["r0"]
    assert kept({"eval/success": [0, 1]}) == ["r0", "r1"], "a run without a value is not kept by its axis"
    assert kept({"no.such": [0, 1]}) == ["r0", "r1", "r2"]
    for wrong in ("[", '{"a.rate": 3}', '{"a.rate": ["x", 1]}', '{"a.rate": [1]}'):
        with pytest.raises(ConfigError, match="brush"):
            table_read(runs, Choice(brush=wrong))
    with pytest.raises(ConfigError, match="scale"):
        table_read(runs, Choice(axes="a.rate:cubic"))


def test_the_picture_is_broken_where_a_run_has_no_value(runs: list[Run]) -> None:
    drawn = parallel_drawn(
        table_read(
            runs, Choice(by="run", axes="a.rate,eval/success,a.type", brush='{"a.rate": [1e-4, 1e-3]}')
        )
    )
    lines = {line["row"]["name"]: line["stretches"] for line in drawn["lines"]}
    assert [len(points.split()) for points in lines["r2"]] == [1, 1]
    assert [len(points.split()) for points in lines["r0"]] == [3]
    assert [line["row"]["name"] for line in drawn["lines"]][0] == "r2", "what is let go lies below"
    top, height = drawn["axes"][0]["brush"]
    assert top == height_of(0.5) and top + height == pytest.approx(height_of(0))


def test_page_and_api_of_the_table(
    client: Client, api: APIClient, user: User, stranger: User, runs: list[Run]
) -> None:
    query = {"runs": ",".join(run.pk for run in runs), "brush": '{"a.type": ["ppo"]}', "by": "run"}
    assert api.get("/api/v1/compare/table/", query).json()["kept"] == [runs[1].pk]
    client.force_login(user)
    text = client.get("/compare/parallel/", query).content.decode()
    assert "1 of 3 runs" in text and f"?runs={runs[1].pk}&amp;by=run" in text
    client.force_login(stranger)
    assert client.get("/compare/parallel/", query).status_code == 404


def told(run: Run, *plays: tuple[int, str, str]) -> None:
    """Evaluations of the task t: (iteration, what was seen, what was said)."""
    for iteration, saw, said in plays:
        first = turn(0, "planner") | {
            "messages": [{"role": "user", "content": saw}], "candidates": [candidate(said)]
        }  # fmt: skip
        name = f"1-{iteration}-eval-0"
        event = played(name, iteration=iteration, kind="eval", task="t", probe=True, turns=[first])
        episodes_store(run, 1, [event])


def test_the_same_task_side_by_side(ada: Client, api: APIClient, runs: list[Run]) -> None:
    told(runs[0], (0, "go", "left"), (5, "go", "up up"), (10, "go", "up <b>right"))
    told(runs[1], (0, "go", "down"), (5, "go", "up left"))
    told(runs[2], (5, "stay", "up"))
    ids = ",".join(run.pk for run in runs)
    said = api.get("/api/v1/compare/probes/", {"runs": ids}).json()
    (task,) = said["tasks"]
    assert [play["iteration"] for play in task["plays"]] == [10, 5, 5]
    assert [play["same_prompt"] for play in task["plays"]] == [True, True, False]
    common = api.get("/api/v1/compare/probes/", {"runs": ids, "at": "common"}).json()
    assert common["iteration"] == 5
    plays = common["tasks"][0]["plays"]
    assert [play["turns"][0]["text"] for play in plays] == ["up up", "up left", "up"]
    assert plays[1]["turns"][0]["parts"] == [
        {"op": "equal", "text": "up "},
        {"op": "delete", "text": "up"},
        {"op": "insert", "text": "left"},
    ]
    early = api.get("/api/v1/compare/probes/", {"runs": ids, "at": "3"}).json()["tasks"][0]["plays"]
    assert early[0]["iteration"] == 0 and early[2] is None
    text = ada.get("/compare/probes/", {"runs": ids}).content.decode()
    assert "&lt;b&gt;" in text and "<b>right" not in text
    assert "prompt of the first turn differs" in text
    assert f"/runs/{runs[0].pk}/episodes/{Episode.objects.filter(run=runs[0]).latest('pk').pk}/" in text
    assert api.get("/api/v1/compare/probes/", {"runs": ids, "kind": "train"}).status_code == 400


def test_fields_that_hold_lists_are_drawn_and_written(ada: Client, user: User, project: Project) -> None:
    fields: list[dict[str, Any]] = [
        {"layers": [64, 64], "deep": {"of": [1]}, "flag": True, "large": 1e308, "none": None},
        {"layers": [32], "deep": {"of": []}, "flag": False, "large": -1e308, "none": 3},
    ]
    pair = [made(user, project, f"r{place}", {"client": each}) for place, each in enumerate(fields)]
    query = {"runs": ",".join(run.pk for run in pair), "by": "run"}
    page = ada.get("/compare/parallel/", query)
    assert page.status_code == 200
    assert {"[64, 64]", "[32]", "true", "false"} <= set(texts_of(page, "td.num"))
    table = table_read(pair, Choice(by="run", axes="client.large"))
    assert [row["places"] for row in table["rows"]] == [[1.0], [0.0]]
    ticks = [float(height) for height, _ in parallel_drawn(table)["axes"][0]["ticks"]]
    assert ticks == pytest.approx([height_of(place) for place in (0, 0.25, 0.5, 0.75, 1)])


def test_a_run_has_the_colour_of_its_group_on_the_whole_page(runs: list[Run], user: User) -> None:
    client = Client()
    client.force_login(user)
    for by in ("family", "run", "a.type"):
        page = client.get("/compare/parallel/", {"runs": ",".join(run.pk for run in runs), "by": by})
        dots = [dot["data-tone"] for dot in elements(page, ".chips .dot")]
        links = [link["href"] for link in elements(page, ".runs-by-axis .row-link")]
        rows = [row["data-tone"] for row in elements(page, ".runs-by-axis th[data-tone]")]
        tones = dict(zip(links, rows, strict=True))
        assert dots == [tones[f"/runs/{run.pk}/"] for run in runs], by
