"""The filter language: against a naive reading of the same sentences, and against what would break in."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from tests.webapp.elements import text_of, texts_of
from webapp.accounts.models import Project, User
from webapp.common.query_language import FilterError
from webapp.metrics.models import Series
from webapp.run_table.completion import filter_complete
from webapp.run_table.filters import runs_filter
from webapp.runs.models import Run, RunNote


@pytest.fixture
def make(user: User, project: Project) -> Callable[..., Run]:
    def made(
        name: str, success: float | None = None, config: dict[str, Any] | None = None, **fields: Any
    ) -> Run:
        run = Run.objects.create(
            name=name, project=project, owner=user, iterations=10, config=config or {}, **{"state": "running"} | fields,
        )  # fmt: skip
        if success is not None:
            Series.objects.create(
                run=run, key="eval/success", last_value=success, max_value=0.95, min_value=success / 2
            )
        return run

    return made


@pytest.fixture
def four(make: Callable[..., Run]) -> None:
    grpo = {
        "algorithm": {"type": "grpo", "lr": 0.01, "kl": True, "gt": 3, "modes": ["a", "b"], "note": 'a."b'}
    }
    duo = {"algorithm": {"type": "at_grpo", "lr": 0.5, "kl": False, "gt": "three"}}
    make("one", 0.9, grpo, tags=["base", "x y"], iteration=3)
    make("two", 0.5, duo, tags=["base"], state="failed", priority=2)
    make("three", None, duo, state="finished", iteration=10, archived=True)
    two = Run.objects.get(name="two")
    for text in ("look here", "look there"):
        RunNote.objects.create(run=two, text=text)
    old = make("four it's", 0.81, {}, preset="plan_path_duo")
    Run.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=30))


def names(text: str) -> set[str]:
    return {run.name.split()[0] for run in runs_filter(Run.objects.all(), text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"one", "two", "three", "four"}),
        ("eval/success > 0.8", {"one", "four"}),
        ("eval/success >= 0.9", {"one"}),
        ("eval/success:max > 0.9", {"one", "two", "four"}),
        ("eval/success:min <= 0.25", {"two"}),
        ("eval/success:last = 0.5", {"two"}),
        ("eval/success:median > 0", set()),
        ("not eval/success > 0.8", {"two", "three"}),
        ("eval/success != 0.5", {"one", "three", "four"}),
        ("algorithm.type = at_grpo", {"two", "three"}),
        ("algorithm.type != at_grpo", {"one", "four"}),
        ("algorithm.type ~ GRPO", {"one", "two", "three"}),
        ("algorithm.lr < 0.1", {"one"}),
        ("algorithm.lr >= 0.01", {"one", "two", "three"}),
        ("algorithm.lr = 5e-1", {"two", "three"}),
        ("algorithm.gt > 2", {"one"}),
        ("not algorithm.gt > 2", {"two", "three", "four"}),
        ("algorithm.gt = three", {"two", "three"}),
        ("algorithm.kl = true", {"one"}),
        ("algorithm.kl = false and eval/success > 0", {"two"}),
        ("algorithm.type = grpo or algorithm.lr >= 0.5 and state = failed", {"one", "two"}),
        ("not (algorithm.type = grpo or algorithm.lr >= 0.5)", {"four"}),
        ("not (algorithm.type = grpo and state = running) and not algorithm.lr = 0.5", {"four"}),
        ("algorithm.type in [grpo, ppo] or algorithm.kl = false", {"one", "two", "three"}),
        ("algorithm.modes = b", {"one"}),
        ("algorithm.note ~ 'A.\"b'", {"one"}),
        ("algorithm.note ~ 'a.*b'", set()),
        ("tag = base", {"one", "two"}),
        ('tag = "x y"', {"one"}),
        ("tag in [nothing, 'x y']", {"one"}),
        ("state in [failed, finished]", {"two", "three"}),
        ("state = running or priority > 1", {"one", "two", "four"}),
        ("state = failed or state = running and eval/success > 0.85", {"one", "two"}),
        ("(state = failed or state = running) and eval/success > 0.85", {"one"}),
        ("NOT (tag = base OR archived = true)", {"four"}),
        ("created > -7d", {"one", "two", "three"}),
        ("created < -1w", {"four"}),
        ("created >= 2020-01-01 and iteration >= 3", {"one", "three"}),
        ("plan_path", {"four"}),
        ('"four it\'s"', {"four"}),
        ("one or two", {"one", "two"}),
        ("owner = ada and project = lab and name ~ T", {"two", "three", "four"}),
        ("android.missing = 3", set()),
        ("algorithm.no = x or note != ''", {"one", "two", "three", "four"}),
        ("note ~ LOOK", {"two"}),
        ("not note ~ look", {"one", "three", "four"}),
    ],
)
def test_what_is_found(four: None, text: str, expected: set[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "loss < 1",
        "metric.loss < 1",
        "metric.loss:max > 2",
        '"loss" < 1',
        "奖励 > 6",
        '"pass#1 (mean)" = 0.9',
        "loss in [0.5, 7]",
    ],
)
def test_metrics_without_a_slash(make: Callable[..., Run], text: str) -> None:
    make("other", 0.5)
    run = make("mine")
    for key, value in {"loss": 0.5, "奖励": 7.0, "pass#1 (mean)": 0.9}.items():
        Series.objects.create(run=run, key=key, last_value=value, max_value=9.0)
    assert names(text) == {"mine"} and names(f"not {text}") == {"other"}


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("colour = red", 1, "not a field"),
        ("state = red", 1, "a state is one of"),
        ("tag = base and eval/success > high", 16, "number"),
        ("algorithm.kl > true", 1, "="),
        ("algorithm.type > grpo", 1, "number"),
        ("name > 3", 1, "text"),
        ("algorithm.lr < 1e999", 1, "large"),
        ("state =", 8, "is incomplete"),
        ("(tag = a", 9, "is incomplete"),
        ("tag = a)", 8, "is unexpected"),
        ("tag = a; drop table", 8, "is unexpected"),
        ("created > yesterday", 1, "not a time"),
        ("created > -9999999999999d", 1, "not a time"),
        ("archived = maybe", 1, "true or false"),
        ("iteration > 99999999999999999999", 1, "large"),
        (" or ".join(["iteration > 1"] * 61), 1021, "at most 60"),
        ("(" * 1500, 1501, ""),
        ("a" * 2001, 1, "characters"),
        ("tag = \0", 1, "NUL"),
    ],
)
def test_what_is_refused_says_where(four: None, text: str, column: int, words: str) -> None:
    with pytest.raises(FilterError) as error:
        names(text)
    assert error.value.column == column and words in error.value.fields["filter"]


@pytest.mark.parametrize(
    "text",
    [
        'tag = "\'; drop table runs_run; --"',
        "algorithm.type = '%s'",
        "a__b.gt__x = 1",
        "name ~ '%'",
        "x.y' = 1",
        """x.y = '") || true || ("'""",
        """x.y ~ '" flag "q") || !exists($.nothing ? (@ == "'""",
    ],
)
def test_nothing_breaks_out(four: None, text: str) -> None:
    with suppress(FilterError):
        assert names(text) == set()
    assert Run.objects.count() == 4


def test_the_page_and_the_api_say_the_same(four: None, api: APIClient, ada: Client) -> None:
    page = ada.get("/runs/", {"filter": "eval/success > 0.8"})
    found = texts_of(page, ".row-link")
    assert "one" in found and "two" not in found and "2 runs" in text_of(page)
    wrong = ada.get("/runs/", {"filter": "<script>"}).content.decode()
    assert "Invalid filter" in wrong and "<script>'" not in wrong
    answer = api.get("/api/v1/runs/", {"filter": "tag = base"})
    assert {row["name"] for row in answer.json()["results"]} == {"one", "two"}
    refused = api.get("/api/v1/runs/", {"filter": "tag ="})
    assert refused.status_code == 400 and "column 6" in refused.json()["errors"]["filter"]


@pytest.mark.parametrize(
    ("text", "start", "option"),
    [
        ("eval/s", 0, "eval/success"),
        ("algorithm.ty", 0, "algorithm.type"),
        ("state = fa", 8, "failed"),
        ("tag = a and st", 12, "state"),
        ("tag = ", 6, '"x y"'),
        ("algorithm.type=at", 15, "at_grpo"),
        ("state in [failed, fin", 18, "finished"),
        ("owner = ", 8, "ada"),
    ],
)
def test_what_may_come_next(four: None, user: User, text: str, start: int, option: str) -> None:
    found = filter_complete(user, text)
    assert found["start"] == start and option in [item["text"] for item in found["options"]]


def test_names_of_metrics_are_offered_as_they_are_written(make: Callable[..., Run], user: User) -> None:
    run = make("mine")
    Series.objects.bulk_create(
        Series(run=run, key=key, last_value=1.0) for key in ("loss", "pass#1 (mean)", 'say "b"')
    )
    for begun in ("loss", "pass", "say"):
        offered = [
            item["text"] for item in filter_complete(user, begun)["options"] if item["note"] == "metric"
        ]
        assert offered and all(names(f"{text} = 1") == {"mine"} for text in offered)


def test_nobody_is_told_of_other_peoples_runs(four: None) -> None:
    stranger = User.objects.create_user("eve")
    for text in ("algorithm.ty", "tag = ", "eval/", "owner = "):
        said = [item["text"] for item in filter_complete(stranger, text)["options"]]
        assert not {"algorithm.type", "base", "eval/success", "ada"} & set(said)
    api = APIClient()
    api.force_authenticate(stranger)
    assert api.get("/api/v1/runs/", {"filter": "iteration >= 0"}).json()["results"] == []
    assert APIClient().get("/api/v1/filter/complete/", {"text": ""}).status_code in (401, 403)
