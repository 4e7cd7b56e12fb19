"""How busy devices were: from an event to a lane, by hand."""

import json

import pytest
from django.test import Client

from tests.webapp.elements import text_of
from webapp.accounts.models import User
from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Phase, Run
from webapp.timeline.services import thinned, utilisation_read

pytestmark = pytest.mark.django_db
DEVICE = "node-1 GPU 0, NVIDIA H100 80GB HBM3"


def tell(run: Run, seq: int, worker: str, samples: list[list[float]]) -> None:
    Attempt.objects.get_or_create(run=run, number=1, defaults={"submission_id": f"{run.pk}-1"})
    event = {
        "run": run.pk, "attempt": 1, "producer": "hand", "seq": seq, "time": 130.0, "type": "utilisation",
        "worker": worker, "device": DEVICE, "samples": samples,
    }  # fmt: skip
    batch_store(run.pk, json.dumps(event).encode(), "")


def test_a_lane_has_the_load_of_its_worker_s_device(run: Run, user: User, client: Client) -> None:
    for worker in ("planner", "planner-update"):
        facts = {"run": run, "attempt": 1, "cursor": 1, "worker": worker, "policy": "planner", "iteration": 1}
        Phase.objects.create(phase="update", start=100.0, end=110.0, **facts)
    tell(run, 1, "planner", [[98.0, 5.0], [101.0, 90.0], [102.0, 70.0]])
    tell(run, 2, "planner", [[103.0, 20.0], [111.0, 5.0]])
    client.force_login(user)
    used, other = client.get(f"/api/v1/runs/{run.pk}/timeline/").json()["lanes"]
    assert (used["device"], used["utilisation"]) == (DEVICE, [[101.0, 90.0], [102.0, 70.0], [103.0, 20.0]])
    assert (other["device"], other["utilisation"]) == (None, [])
    assert f"60% {DEVICE}" in text_of(client.get(f"/runs/{run.pk}/timeline/"))


def test_many_samples_are_means_of_stretches() -> None:
    samples = [(float(moment), 10.0 * (moment % 2)) for moment in range(100)]
    few = thinned(samples, 0.0, 100.0, 10)
    assert few == [(10.0 * place, 5.0) for place in range(10)]
    assert thinned(samples[:10], 0.0, 100.0, 10) == samples[:10]
    assert thinned([(1.0, 2.0)] * 3, 1.0, 1.0, 2) == [(1.0, 2.0)] * 3


@pytest.mark.parametrize("samples", [[], [[100.0, 101.0]], [[100.0, -1.0]], [[-1.0, 5.0]]])
def test_what_is_no_share_of_a_device_is_refused(run: Run, samples: list[list[float]]) -> None:
    with pytest.raises(IngestRejected):
        tell(run, 1, "planner", samples)
    assert utilisation_read(run, 0.0, 1e9) == {}
