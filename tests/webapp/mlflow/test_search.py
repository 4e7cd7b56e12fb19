"""MLflow's filter language and order against a naive evaluation of the same runs."""

from typing import Any

import pytest

from tests.webapp.mlflow.conftest import Ask

RUNS: list[dict[str, Any]] = [
    {
        "name": "a",
        "metrics": {"loss": 0.5, "train/kl": 1.0},
        "params": {"lr": "0.1", "model": "tiny"},
        "tags": {"team": "red"},
        "datasets": {"d1": "train", "d2": "eval"},
    },
    {
        "name": "b",
        "metrics": {"loss": 0.25},
        "params": {"lr": "0.01", "model": "Tiny-2"},
        "tags": {"team.lead": "x"},
        "datasets": {"d2": "train"},
    },
    {"name": "c", "metrics": {"loss": "NaN"}, "params": {"a b": "1"}, "tags": {"team": "blue"}},
    {"name": "d", "metrics": {}, "params": {}, "tags": {}},
]


@pytest.fixture
def searched(ask: Ask, experiment: str) -> Ask:
    """Names of the runs that a search returns; the runs started in the order of RUNS, and b has failed."""
    for number, run in enumerate(RUNS):
        made = ask(
            "POST",
            "runs/create",
            experiment_id=experiment,
            run_name=run["name"],
            start_time=1000 * (number + 1),
        )
        lists = {kind: [{"key": k, "value": v} for k, v in run[kind].items()] for kind in ("params", "tags")}
        metrics = [{"key": k, "value": v, "timestamp": 1, "step": 0} for k, v in run["metrics"].items()]
        run_id = made["run"]["info"]["run_id"]
        ask("POST", "runs/log-batch", run_id=run_id, metrics=metrics, **lists)
        inputs = [
            {
                "dataset": {"name": k, "digest": f"of {k}"},
                "tags": [{"key": "mlflow.data.context", "value": v}],
            }
            for k, v in run.get("datasets", {}).items()
        ]
        ask("POST", "runs/log-inputs", run_id=run_id, datasets=inputs)
        if run["name"] == "b":
            ask("POST", "runs/update", run_id=run_id, status="FAILED")

    def search(text: str = "", **arguments: Any) -> str:
        listed = ask("POST", "runs/search", experiment_ids=[experiment], filter=text, **arguments)["runs"]
        return "".join(run["info"]["run_name"] for run in listed)

    return search


FILTERS = (
    ("", "dcba"),
    ("metrics.loss < 0.4", "b"),
    ("metrics.loss >= 0.25 and metrics.loss <= 1e0", "ba"),
    ("metrics.loss != 0.5", "b"),
    ("metric.`train/kl` = 1", "a"),
    ('metrics."train/kl" > 0', "a"),
    ("params.model = 'tiny'", "a"),
    ('params.model != "tiny"', "b"),
    ("params.lr = '0.10'", ""),
    ("params.model LIKE 'Tiny%'", "b"),
    ("params.model ilike 'tiny%'", "ba"),
    ("params.model LIKE 't_ny'", "a"),
    ("params.model LIKE 't.ny'", ""),
    ("params.model LIKE '%%%%ny%_%'", "b"),
    ("params.model LIKE 'tiny\\\\'", ""),
    ("params.`a b` = '1'", "c"),
    ("tags.team = 'red'", "a"),
    ("tags.team.lead = 'x'", "b"),
    ("tags.team IS NOT NULL", "ca"),
    ("tags.team is null", "db"),
    ("attributes.status = 'FAILED'", "b"),
    ("attribute.status != 'FAILED' AND metrics.loss > 0", "a"),
    ("run_name IN ('a', 'd')", "da"),
    ("attributes.run_name NOT IN ('a', 'd')", "cb"),
    ("start_time > 1500 and attributes.start_time <= 3000", "cb"),
    ("`run name` = 'c'", "c"),
    ("attributes.user_id = 'ada'", "dcba"),
    ("datasets.name = 'd2'", "ba"),
    ("dataset.name != 'd2'", "a"),
    ("dataset.name LIKE 'd_' and datasets.context = 'eval'", "a"),
    ("datasets.digest ILIKE 'OF D1'", "a"),
    ("datasets.context IN ('train', 'x') AND metrics.loss < 0.4", "b"),
    ("datasets.name NOT IN ('d2')", "a"),
)
ORDERS = (
    (["metrics.loss"], "badc"),
    (["metrics.loss DESC"], "abdc"),
    (["params.lr ASC"], "badc"),
    (["attributes.start_time ASC"], "abcd"),
    (["run_name desc"], "dcba"),
    (["tags.`team`", "start_time"], "cabd"),
)


def test_a_filter_selects_runs(searched: Ask, subtests: pytest.Subtests) -> None:
    for text, names in FILTERS:
        with subtests.test(text):
            assert searched(text) == names


def test_runs_have_an_order(searched: Ask, subtests: pytest.Subtests) -> None:
    for order, names in ORDERS:
        with subtests.test(str(order)):
            assert searched(order_by=order) == names


@pytest.mark.parametrize(
    "text",
    [
        "loss < 1", "metrics.loss < 'a'", "params.lr < '0.1'", "params.lr = 0.1", "metrics.loss = 1 or metrics.loss = 2",
        "status = FINISHED", "metrics.loss", "datasets.source = 'x'", "datasets.name > 'x'", "datasets.name IS NULL",
        "start_time = 'x'", "params. = 'x'", "metrics.a LIKE 'x'",
        "'; drop table runs_run; --", " and ".join(["params.a = ''"] * 61), f"params.a = '{'x' * 20_000}'",
    ],
)  # fmt: skip
def test_a_wrong_filter_is_refused(ask: Ask, experiment: str, text: str) -> None:
    answer = ask("POST", "runs/search", 400, experiment_ids=[experiment], filter=text)
    assert answer["error_code"] == "INVALID_PARAMETER_VALUE"


def test_a_search_has_pages_and_views(searched: Ask, ask: Ask, experiment: str) -> None:
    first = ask("POST", "runs/search", experiment_ids=[experiment], max_results=3)
    assert searched(max_results=3, page_token=first["next_page_token"]) == "a"
    failed = ask("POST", "runs/search", experiment_ids=[experiment], filter="status = 'FAILED'")["runs"][0]
    ask("POST", "runs/delete", run_id=failed["info"]["run_id"])
    assert searched() == "dca" and searched(run_view_type="DELETED_ONLY") == "b"
    assert searched(run_view_type="ALL") == "dcba"
