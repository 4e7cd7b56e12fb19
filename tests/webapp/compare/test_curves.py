"""Curves of groups: alignment by hand and by naive loops; what is shown of runs of different length."""

import csv
import random
from functools import partial
from math import isnan, nan
from operator import attrgetter
from statistics import mean, stdev
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import text_of
from webapp.accounts.models import Project, User
from webapp.compare.curves import axis_of, band_of, counts_of, line_of, lines_read, mean_of, on_axis, smoothed
from webapp.metrics.arrays import pack_floats, pack_ints, unpack_floats, unpack_ints
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_a_line_is_sorted_and_the_last_of_equal_steps_counts() -> None:
    line = line_of(array(3, 1, 2, 1, 4), array(30, 10, nan, 11, float("inf")))
    assert line.x.tolist() == [1, 3] and line.y.tolist() == [11, 30] and line.left_out == 2


def test_no_run_is_drawn_beyond_its_own_points() -> None:
    short, sparse = line_of(array(0, 1, 2), array(0, 1, 2)), line_of(array(1, 4), array(10, 40))
    axis, spans = axis_of([short, sparse])
    assert axis.tolist() == [0, 1, 2, 4] and not spans
    table = np.stack([on_axis(line, axis, spans) for line in (short, sparse)])
    assert [None if isnan(value) else value for value in table[0]] == [0, 1, 2, None]
    assert [None if isnan(value) else value for value in table[1]] == [None, 10, 20, 40]
    assert counts_of(table).tolist() == [1, 2, 2, 1]
    assert mean_of(table).tolist() == [0, 5.5, 11, 40]
    band = band_of(table, "sd")
    assert band and isnan(band.low[0]) and isnan(band.high[3])
    assert band.high[1] - 5.5 == pytest.approx(9 / 2**0.5), "sd of 1 and 10, of the sample"
    band = band_of(table, "minmax")
    assert band and band.low.tolist() == [0, 1, 2, 40] and band.high.tolist() == [0, 10, 20, 40]
    assert band_of(table, "none") is None


def test_long_lines_are_means_of_spans() -> None:
    draw = random.Random(2)
    x = np.arange(1000.0)
    y = array(*(draw.random() for _ in x))
    axis, spans = axis_of([line_of(x, y)], most=10)
    assert spans and len(axis) == 10
    naive = [float(np.mean(y[(x * 10 / 999).astype(int).clip(0, 9) == span])) for span in range(10)]
    assert on_axis(line_of(x, y), axis, spans).tolist() == pytest.approx(naive)
    late = on_axis(line_of(array(700, 999), array(1, 4)), axis, spans)
    assert [isnan(value) for value in late] == [True] * 7 + [False] * 3
    assert late[7:].tolist() == pytest.approx([1, 2.5, 4])


def test_smoothing_by_a_naive_loop() -> None:
    rows = np.array([[1, 2, 3, nan], [nan, 5, 1, 2]])
    for row, found in zip(rows, smoothed(rows, 0.6), strict=True):
        for place, value in enumerate(row):
            met = [
                (other, 0.6 ** (place - index))
                for index, other in enumerate(row[: place + 1])
                if not isnan(other)
            ]
            if isnan(value):
                assert isnan(found[place])
            else:
                assert found[place] == pytest.approx(sum(v * w for v, w in met) / sum(w for _, w in met))


def test_the_interval_of_the_mean_by_a_naive_bootstrap() -> None:
    draw = np.random.default_rng(5)
    table = draw.normal(0, 1, (12, 3))
    table[0, 2] = nan
    table[1:, 1] = nan
    band = band_of(table, "ci")
    assert band and isnan(band.low[1]), "one run has no interval"
    for place in (0, 2):
        values = table[:, place]
        means = [np.nanmean(values[draw.integers(0, 12, 12)]) for _ in range(4000)]
        low, high = np.quantile(means, [0.025, 0.975])
        assert band.low[place] == pytest.approx(low, abs=0.08)
        assert band.high[place] == pytest.approx(high, abs=0.08)


def told(run: Run, key: str, *attempts: list[tuple[int, float]]) -> None:
    """A series of points by attempt, a second apart."""
    last = attempts[-1][-1]
    series = Series.objects.create(run=run, key=key, last_step=last[0], last_value=last[1])
    for number, points in enumerate(attempts, 1):
        steps = [step for step, _ in points]
        Chunk.objects.create(
            series=series, attempt=number, cursor=1, count=len(points), steps=pack_ints(steps),
            values=pack_floats([value for _, value in points]), times=pack_floats([100.0 + step for step in steps]),
        )  # fmt: skip


@pytest.fixture
def made(user: User, project: Project) -> dict[str, Run]:
    """Two runs of one family, one that stopped early, and one of another that was resumed."""
    runs = {
        name: Run.objects.create(
            pk=f"{name}number", name=family, project=project, owner=user, iterations=9, family=family,
            config={"run": {"seed": place}, "algorithm": {"clip_low": 0.1 if family == "f1" else 0.2}},
        )
        for place, (name, family) in enumerate([("long", "f1"), ("early", "f1"), ("again", "f2")])
    }  # fmt: skip
    told(runs["long"], "eval/success", [(0, 0.2), (2, 0.4), (4, 0.8)])
    told(runs["early"], "eval/success", [(0, 0.4), (2, 0.6)])
    told(runs["again"], "eval/success", [(0, 0.0), (2, 9.0), (4, 9.0)], [(2, 0.5), (3, 0.7)])
    told(runs["long"], "progress/tokens", [(1, 100.0), (2, 200.0), (4, 600.0)])
    return runs


def test_curves_say_how_many_runs_there_are(api: APIClient, made: dict[str, Run]) -> None:
    said = api.get("/api/v1/compare/curves/", {"filter": "iteration >= 0", "band": "minmax"}).json()
    assert said["axis"] == [0, 2, 3, 4]
    rows = {row["group"]: row for row in said["groups"]}
    assert rows["f1"]["n"] == 2 and rows["f1"]["counts"] == [2, 2, 1, 1]
    assert rows["f1"]["mean"] == pytest.approx([0.3, 0.5, 0.6, 0.8])
    assert rows["f1"]["low"] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert rows["f2"]["mean"] == [0.0, 0.5, 0.7, None], "what a later attempt played again does not count"


def test_other_axes(api: APIClient, made: dict[str, Run]) -> None:
    runs = list(made.values())
    assert lines_read(runs, "eval/success", "time")["longnumber"].x.tolist() == [0, 2, 4]
    assert lines_read(runs, "eval/success", "tokens")["longnumber"].x.tolist() == [0, 200, 600]
    said = api.get("/api/v1/compare/curves/", {"runs": "longnumber,earlynumber", "x": "tokens"}).json()
    assert said["axis"] == [0, 200, 600] and said["without"] == ["earlynumber"]


def test_expressions_and_metrics_as_axis(api: APIClient, made: dict[str, Run]) -> None:
    told(made["long"], "train/success", [(0, 0.1), (1, 0.2), (2, 0.1), (2, 0.2), (4, 0.2)])
    told(made["again"], "train/success", [(2, 0.5)])
    query = {"filter": "iteration >= 0", "by": "run", "key": "eval/success - train/success"}
    said = api.get("/api/v1/compare/curves/", query).json()
    rows = {row["group"]: row["mean"] for row in said["groups"]}
    assert said["axis"] == [0, 2, 4] and said["without"] == ["earlynumber"]
    assert rows["longnumber"] == pytest.approx([0.1, 0.2, 0.6]) and rows["againnumber"] == [None, 0.0, None]
    across = api.get("/api/v1/compare/curves/", query | {"key": "eval/success", "x": "train/success"}).json()
    assert across["axis"] == [0.1, 0.2, 0.5], "of points at 0.2 the last counts"
    last = api.get("/api/v1/compare/", query).json()["groups"]
    assert [(row["mean"], row["last_step"]) for row in last] == [(0.0, 2), (pytest.approx(0.6), 4)]
    for wrong, field in (({"key": "eval/success -"}, "key"), ({"x": "a b"}, "x"), ({"x": "no/such"}, "x")):
        answer = api.get("/api/v1/compare/curves/", query | wrong)
        assert answer.status_code == 400 and field in answer.json()["errors"]


def test_a_run_has_one_colour(api: APIClient, made: dict[str, Run]) -> None:
    tones = {run.pk: f"r{run.tone}" for run in made.values()}
    assert list(tones.values()) == ["r1", "r2", "r3"]
    for runs in ("longnumber,againnumber", "againnumber,longnumber"):
        groups = api.get("/api/v1/compare/curves/", {"runs": runs, "by": "run"}).json()["groups"]
        assert {row["group"]: row["tone"] for row in groups} == {run: tones[run] for run in runs.split(",")}


def test_figures_at_a_common_step(api: APIClient, made: dict[str, Run]) -> None:
    query = {"runs": "longnumber,earlynumber", "by": "run"}
    last = api.get("/api/v1/compare/", query).json()["groups"]
    assert [(row["mean"], row["last_step"]) for row in last] == [(0.8, 4), (0.6, 2)]
    common = api.get("/api/v1/compare/", query | {"at": "common"}).json()
    assert common["step"] == 2 and [row["mean"] for row in common["groups"]] == [0.4, 0.6]
    third = api.get("/api/v1/compare/", query | {"at": "3"}).json()
    assert third["without"] == ["earlynumber"] and third["groups"][0]["first_step"] == 2


def test_page_its_file_and_its_link(client: Client, user: User, stranger: User, made: dict[str, Run]) -> None:
    client.force_login(user)
    query = "runs=longnumber,earlynumber&by=run&band=minmax"
    page = client.get(f"/compare/?{query}").content.decode()
    assert "0.80" in page and "These values are at different steps" in page and "data-live" in page
    Run.objects.update(state="finished")
    assert "data-live" not in client.get(f"/compare/?{query}").content.decode()
    rows = list(csv.DictReader(client.get(f"/compare/curves.csv?{query}").content.decode().splitlines()))
    assert [(row["step"], row["mean"], row["n"]) for row in rows if row["mean"]][:3] == [
        ("0.0", "0.2", "1"),
        ("2.0", "0.4", "1"),
        ("4.0", "0.8", "1"),
    ]
    Run.objects.update(name='=HYPERLINK("http://evil.example","x")')
    formulas = csv.DictReader(client.get(f"/compare/curves.csv?{query}").content.decode().splitlines())
    assert {row["group"][:11] for row in formulas} == {"'=HYPERLINK"}, "a spreadsheet shows it as text"
    chosen = client.post("/runs/bulk/", {"runs": ["longnumber", "earlynumber"], "act": ["stop", "compare"]})
    assert chosen["Location"] == "/compare/?runs=longnumber,earlynumber"
    assert not Run.objects.exclude(state="finished").exists(), "comparing does nothing to them"
    shared = client.post("/compare/share/", {"query": f"{query}&key=eval/success"})
    guest = Client()
    opened = guest.get(text_of(shared, "#new-link").removeprefix("http://testserver"), follow=True)
    assert opened.status_code == 200 and "0.80" in opened.content.decode()
    assert parse_qs(urlsplit(opened.redirect_chain[-1][0]).query)["by"] == ["run"]
    for part in ("config/", "parallel/", "probes/"):
        assert guest.get(f"/compare/{part}?{query}").status_code == 200
    assert guest.get("/api/v1/compare/curves/?runs=longnumber").status_code == 200
    assert guest.get("/compare/?runs=againnumber").status_code == 404, (
        "another run than those that were shared"
    )
    assert guest.get(f"/compare/curves.csv?{query}").status_code == 302
    client.force_login(stranger)
    assert client.post("/compare/share/", {"query": query}).status_code == 404


def test_mistakes_are_named_and_strangers_see_nothing(
    api: APIClient, made: dict[str, Run], stranger: User
) -> None:
    for query in ({"x": "miles"}, {"band": "wide"}, {"smooth": "1.5"}, {"at": "first"}):
        answer = api.get("/api/v1/compare/curves/", {"runs": "longnumber", **query})
        assert answer.status_code == 400 and next(iter(query)) in answer.json()["errors"]
    other = APIClient()
    other.force_authenticate(stranger)
    assert other.get("/api/v1/compare/curves/", {"runs": "longnumber"}).status_code == 404


@pytest.fixture
def many(user: User, project: Project) -> list[Run]:
    """520 runs of 26 families: one to four points, in one or two chunks, some with a NaN, with another attempt, or without the metric."""
    draw = random.Random(1)
    runs = [
        Run(
            pk=f"r{number:04}", name=f"run {number}", project=project, owner=user, iterations=9, family=f"f{number % 26:02}",
            config={"run": {"seed": number // 26}, "algorithm": {"clip_low": number % 26}}, tone=1,
        )
        for number in range(520)
    ]  # fmt: skip
    Run.objects.bulk_create(runs)
    rows, chunks = [], []
    for number, run in enumerate(runs):
        if number % 26 == 7 or number % 31 == 5:
            continue
        steps = list(range(1, 1 + draw.choice((4, 4, 4, 2))))
        values = [number % 26 + draw.random() for _ in steps]
        if number % 17 == 3:
            values[1] = nan
        parts = (
            [(1, steps, values)]
            if number % 5
            else [(1, steps, values), (1 + number % 2, [2, 9], [0.25, 0.5])]
        )
        last = values[-1] if len(parts) == 1 else 0.5
        rows.append(Series(run=run, key="eval/success", last_step=parts[-1][1][-1], last_value=last))
        chunks.append((rows[-1], parts))
    Series.objects.bulk_create(rows)
    Chunk.objects.bulk_create(
        Chunk(
            series=series, attempt=attempt, cursor=place, count=len(steps), steps=pack_ints(steps), values=pack_floats(values),
            times=pack_floats(steps),
        )
        for series, parts in chunks
        for place, (attempt, steps, values) in enumerate(parts, 1)
    )  # fmt: skip
    return runs


def config_at(path: str, run: Run) -> str:
    section, name = path.split(".")
    return str(run.config[section][name])


def naive_points() -> dict[str, dict[int, float]]:
    """The valid points of every run by step, by loops over the stored points."""
    parts: dict[str, list[Chunk]] = {}
    for chunk in Chunk.objects.filter(series__key="eval/success").select_related("series").order_by("pk"):
        parts.setdefault(chunk.series.run_id, []).append(chunk)
    points: dict[str, dict[int, float]] = {}
    for run, chunks in parts.items():
        own = points.setdefault(run, {})
        starts = {chunk.attempt: min(unpack_ints(chunk.steps)) for chunk in chunks}
        for chunk in chunks:
            later = [first for attempt, first in starts.items() if attempt > chunk.attempt]
            for step, value in zip(unpack_ints(chunk.steps), unpack_floats(chunk.values), strict=True):
                if not any(step >= first for first in later) and not isnan(value):
                    own[int(step)] = float(value)
    return points


def naive_values(lines: list[dict[int, float]], at: float) -> list[float]:
    """The values of the lines at a step, between two points by their distances; of lines that end before it none."""
    met = []
    for points in lines:
        if points and min(points) <= at <= max(points):
            before = max(step for step in points if step <= at)
            after = min(step for step in points if step >= at)
            share = (at - before) / (after - before) if after > before else 0.0
            met.append(points[before] * (1 - share) + points[after] * share)
    return met


@pytest.mark.parametrize("by", ["family", "algorithm.clip_low", "run.seed"])
def test_groups_of_many_runs_by_a_naive_loop(api: APIClient, many: list[Run], by: str) -> None:
    query = {"filter": "name ~ run", "by": by, "band": "sd"}
    drawn = api.get("/api/v1/compare/curves/", query).json()
    # Of 26 families, one has no such metric.
    count, omitted = (20, 0) if by == "run.seed" else (24, 2)
    assert len(drawn["groups"]) == count and drawn["omitted"] == omitted
    assert drawn["axis"] == [1, 2, 3, 4, 9] and not drawn["spans"]
    points, group_of = naive_points(), attrgetter("family") if by == "family" else partial(config_at, by)
    for group in drawn["groups"]:
        lines = [points[run.pk] for run in many if group_of(run) == group["group"] and run.pk in points]
        assert group["n"] == len(lines) and len(group["runs"]) == min(20, len(lines))
        for place, at in enumerate(drawn["axis"]):
            values = naive_values(lines, at)
            assert group["counts"][place] == len(values)
            assert group["mean"][place] == pytest.approx(mean(values))
            assert (group["high"][place] is None) == (len(values) < 2)
            if len(values) > 1:
                assert group["high"][place] - mean(values) == pytest.approx(stdev(values))


def test_the_drawn_groups_have_the_best_last_values(api: APIClient, ada: Client, many: list[Run]) -> None:
    lasts: dict[str, list[float]] = {}
    for family, value in Series.objects.values_list("run__family", "last_value"):
        lasts.setdefault(family, []).append(value)
    ranked = sorted(lasts, key=lambda family: sum(lasts[family]) / len(lasts[family]))
    for top, expected in (("highest", ranked[-24:]), ("lowest", ranked[:24])):
        query = {"filter": "name ~ run", "top": top}
        drawn, figures = (api.get(f"/api/v1/compare/{part}", query).json() for part in ("curves/", ""))
        assert (
            {group["group"] for group in drawn["groups"]}
            == {group["group"] for group in figures["groups"]}
            == set(expected)
        )
        assert figures["omitted"] == 2 and not figures["pairs"]
    page = text_of(ada.get("/compare/", {"filter": "name ~ run", "top": "lowest"}).content.decode())
    assert "24 of 26 groups are shown: those with the lowest mean of the last values" in page
    assert "run.seed" in page


def test_too_many_runs_are_refused_with_the_remedy(api: APIClient, many: list[Run]) -> None:
    query = {"filter": "name ~ run"}
    for path, more, field, words in (
        (
            "curves/",
            {"by": "run"},
            "by",
            "520 lines; at most 24 are drawn: group by everything except the seed",
        ),
        ("curves/", {"band": "runs", "by": "run.seed"}, "band", "at most 60 are drawn: choose another band"),
        (
            "config/",
            {},
            "runs",
            "choose 1 to 500 runs, by id or by a filter. Name fewer runs, or use a narrower filter",
        ),
    ):
        answer = api.get(f"/api/v1/compare/{path}", query | more)
        assert answer.status_code == 400 and words in answer.json()["errors"][field]
    assert api.get("/api/v1/compare/curves/", query | {"key": "eval/success * 2"}).json()["omitted"] == 2
