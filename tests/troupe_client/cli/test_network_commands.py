"""Runs of small networks by command and by REST: all actions, and metrics without success."""

import json

import pytest
from django.test import Client

from tests.troupe_client.cli.conftest import Troupe
from webapp.accounts.models import User
from webapp.metrics.headline import outcome_key
from webapp.metrics.models import Series
from webapp.runs.models import Run

pytestmark = pytest.mark.usefixtures("connected")
NETWORKS = "policies.agents.learner.actor_learning_rate=0.0005"


@pytest.fixture(autouse=True)
def _nobody_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run: None)


def launched(troupe: Troupe, *words: str) -> Run:
    result = troupe("launch", "spread_mappo", *words, "--json")
    assert result.status == 0, result.err
    return Run.objects.get(pk=json.loads(result.out)["id"])


def with_return(run: Run, value: float) -> Run:
    """As if its last evaluation had result so."""
    run.headline = {"eval/return": value, "train/return": value - 1}
    run.save(update_fields=["headline"])
    Series.objects.create(run=run, key="eval/return", count=1, last_step=9, last_value=value)
    return run


def test_runs_without_success_are_compared_by_their_return(troupe: Troupe, ada: User, client: Client) -> None:
    one = with_return(launched(troupe, "--name", "one"), -40.0)
    other = with_return(launched(troupe, NETWORKS, "--name", "other"), -30.0)
    found = json.loads(troupe("compare", one.pk, other.pk, "--json").out)
    assert (found["key"], [group["mean"] for group in found["groups"]]) == ("eval/return", [-40.0, -30.0])
    assert found["pairs"][0]["probability"] == 0.0
    client.force_login(ada)
    page = client.get(f"/compare/?runs={one.pk},{other.pk}").content.decode()
    assert 'value="eval/return"' in page
    for words in (("runs",), ("family", "list"), ("checkpoint", "lineage", one.pk)):
        result = troupe(*words).out
        assert "-40.000" in result and "success" not in result
    assert "actor_learning_rate" in troupe("comparison", "config", one.pk, other.pk).out


def test_success_is_the_headline_if_any_run_has_it() -> None:
    assert outcome_key([{"eval/return": 1.0}, {"eval/return": 2.0, "eval/success": 0.5}]) == "eval/success"
    assert outcome_key([{"eval/return": 1.0}, {}]) == "eval/return"
    assert outcome_key([]) == "eval/success"


def test_a_sweep_counts_steps_and_ranks_by_return(troupe: Troupe) -> None:
    sizes = ("run.iterations=2", "rollout.environments=4", "rollout.steps=25")
    words = ("sweep", "launch", "spread_mappo", *sizes)
    axis = ("--grid", "algorithm.entropy_coefficient=0.0,0.02")
    assert "2 runs, 4 iterations, 400 environment steps" in troupe(*words, *axis, "--plan").out
    made = json.loads(troupe(*words, *axis, "--yes", "--json").out)
    for value, row in enumerate(made["results"]):
        with_return(Run.objects.get(pk=row["id"]), float(value))
    found = json.loads(troupe("sweep", "show", str(made["id"]), "--json").out)
    assert (found["metric"], [point["mean"] for point in found["points"]]) == ("eval/return", [1.0, 0.0])
    assert "eval/return" in troupe("sweep", "show", str(made["id"])).out


def test_networks_have_steps_threads_and_no_batch(troupe: Troupe) -> None:
    assert troupe("experiment", "estimate", "spread_mappo").out.count("environment steps") == 1
    assert troupe("experiment", "profile", "spread_mappo", "minimal").err.count("resources.threads") == 1
    assert "see the timeline" in troupe("timeline", "batch", launched(troupe).pk, "3").err
