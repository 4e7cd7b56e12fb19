"""Provenance of runs: stored at launch and by the driver; on the Config tab, in the API, in Compare."""

import json
from typing import Any

import pytest
from django.test import Client

from training_core.config.files import read_preset
from webapp.accounts.models import Project, User
from webapp.accounts.tokens import token_create
from webapp.compare.table import configs_differ
from webapp.provenance.models import Provenance
from webapp.provenance.services import provenance_read, provenance_report, provenance_store
from webapp.runs.models import LogLine, Run
from webapp.scheduling.services import run_create
from workers.provenance.repository import packed_diff

COMMIT = "a" * 40


def facts(commit: str = COMMIT, diff: str = "+speed = 2 <b>\n", **more: Any) -> dict[str, Any]:
    repository = {
        "name": "lab", "folder": "/home/ada/lab", "commit": commit, "branch": "main", "changed": ["world.py"],
        "untracked": [], "diff": packed_diff(diff)[0], "diff_bytes": len(diff), "diff_sha256": ("d" if diff else "") * 64,
    }  # fmt: skip
    machine = {
        "host": "box", "system": "Linux", "processor": "EPYC", "cores": 2, "memory": 2**34, "gpus": [], "python": "3.11",
    }  # fmt: skip
    known = {"command": "python -m workers.run", "machine": machine, "repositories": [repository]}
    return known | {"installed": {"torch": "2"}} | more


def test_a_launch_is_shown_on_the_config_tab_and_in_the_api(user: User, project: Project) -> None:
    secret = token_create(user, "t", ["launch", "read"])[1]
    launched = facts(command="troupe launch plan_path_duo") | {"via": "command line"}
    body = {"preset": "plan_path_duo", "provenance": launched, "name": "Mine"}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = Client().post(
        "/api/v1/runs/", json.dumps(body), content_type="application/json", headers=headers
    )
    assert answer.status_code == 201, answer.content
    run = Run.objects.get()
    code = [{"field": "environment.path", "path": "lab.worlds:Boats", "sha256": "c" * 64, "files": 2}]
    file = {"path": "tasks.jsonl", "bytes": 9, "sha256": "e" * 64, "sampled": True}
    data = [{"field": "environment.problems"} | file]
    engines = {"planner": "torch: it generates on the CPU"}
    provenance_report(run, 1, facts(code=code, data=data, engines=engines))
    provenance_report(run, 1, {"cluster": [{"host": "gpu-7", "cores": 8, "gpus": [{"name": "H200"}]}]})
    document = Client().get(f"/api/v1/runs/{run.pk}/provenance/", headers=headers).json()
    assert document["launch"]["repositories"][0]["diff"] == "+speed = 2 <b>\n"
    assert document["attempts"][0]["code"][0]["sha256"] == "c" * 64
    client = Client()
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}/config/").content.decode()
    for text in (
        "command line",
        COMMIT,
        "+speed = 2 &lt;b&gt;",
        "gpu-7: 8 cores",
        "cccccccccccc",
        "of 64 pieces",
        "torch: it generates on the CPU",
    ):
        assert text in page, text
    assert page.count(COMMIT) == 1  # the same state of launch and driver is shown once


def test_a_second_attempt_with_other_code_is_marked(run: Run, user: User) -> None:
    for number, commit in ((1, COMMIT), (2, "b" * 40), (3, "b" * 40)):
        provenance_report(run, number, facts(commit))
    client = Client()
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}/config/").content.decode()
    assert "The code of attempt 2 differs" in page and "attempt 3 differs" not in page
    assert "b" * 40 in page and COMMIT not in page
    assert COMMIT in client.get(f"/runs/{run.pk}/config/?attempt=1").content.decode()


def test_compare_names_code_that_differs(user: User, project: Project) -> None:
    tree = read_preset("plan_path_duo")
    runs = [run_create(user, project, tree, "plan_path_duo", {}) for _ in range(2)]
    for run, diff, engine in zip(runs, ("", "+speed = 2\n"), ("torch", "vllm"), strict=True):
        provenance_store(run, 1, provenance_read(facts(diff=diff, engines={"planner": engine})))
    difference = configs_differ(runs, "run")
    values = {field["path"]: [cell["values"] for cell in field["cells"]] for field in difference["fields"]}
    assert values == {
        "code.lab.uncommitted": [["none"], ["dddddddddddd"]],
        "engine.planner": [["torch"], ["vllm"]],
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": 5},
        {"command": "a" * 5000},
        {"repositories": [{"name": "a", "folder": "b", "diff": "bm8="}]},
        "text",
    ],
)
def test_an_invalid_report_is_described_in_the_log(run: Run, wrong: Any) -> None:
    provenance_report(run, 1, wrong)
    assert "provenance" in LogLine.objects.get(run=run).message and not Provenance.objects.exists()
