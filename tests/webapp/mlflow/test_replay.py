"""Requests of MLflow's client (exchange.json, recorded by test_real_client.py with TROUPE_RECORD=1) get the recorded responses."""

import json
import re
from pathlib import Path
from typing import Any

from django.test import Client

from webapp.accounts.models import Project, User
from webapp.accounts.tokens import token_create

EXCHANGE = Path(__file__).with_name("exchange.json")
ROOT = "/mlflow/api/2.0/"
_VOLATILE = ("creation_time", "last_update_time")


def normalised(exchange: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace ids, which differ in each database, and leave out times of the server."""
    text = json.dumps(exchange)
    experiment = next(
        e["answer"]["experiment_id"] for e in exchange if e["path"].endswith("experiments/create")
    )
    run = next(e["answer"]["run"]["info"]["run_id"] for e in exchange if e["path"].endswith("runs/create"))
    text = text.replace(run, "{run}").replace(f'"{experiment}"', '"{experiment}"')
    text = re.sub(rf'"({"|".join(_VOLATILE)})": \d+', r'"\1": 0', text)
    found: list[dict[str, Any]] = json.loads(text)
    return found


def ask(client: Client, step: dict[str, Any]) -> Any:
    """Send a recorded request."""
    path = ROOT + step["path"]
    if step["method"] == "GET":
        return client.get(path, step.get("query") or {})
    if step["method"] == "PUT":
        return client.put(path, step["content"], content_type="text/plain")
    return client.post(path, json.dumps(step["json"]), content_type="application/json")


def test_the_recorded_requests_get_the_recorded_responses(user: User, project: Project) -> None:
    secret = token_create(user, "all", ["admin"])[1]
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    steps = json.loads(EXCHANGE.read_text())
    assert len(steps) > 30
    replayed, ids = [], {"run": "", "experiment": ""}
    for recorded in steps:
        text = json.dumps({**recorded, "answer": ""})
        step = json.loads(text.replace("{run}", ids["run"]).replace("{experiment}", ids["experiment"]))
        response = ask(client, step)
        content = b"".join(response.streaming_content) if response.streaming else response.content
        answer = json.loads(content) if response["Content-Type"] == "application/json" else content.decode()
        replayed.append(step | {"status": response.status_code, "answer": answer})
        if step["path"].endswith("/create"):
            ids |= {"experiment": answer["experiment_id"]} if "experiment_id" in answer else {}
            ids |= {"run": answer["run"]["info"]["run_id"]} if "run" in answer else {}
    assert normalised(replayed) == steps
