"""Media on the server: stored by ingest, read by step, replaced by later attempts, shown and served."""

import json

import numpy as np
import pytest
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from troupe_client.reporting.media import Histogram, Image, Text
from webapp.accounts.models import Project, User
from webapp.accounts.tokens import token_create
from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store
from webapp.media.models import MediaValue
from webapp.media.services import BINS, heat_map, names_of, steps_of, values_at, values_of
from webapp.quotas.services import bytes_stored
from webapp.runs.models import Attempt, Run


@pytest.fixture
def api(user: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {token_create(user, 't', ['read'])[1]}"})


def store(run: Run, *logged: tuple[int, str, object], attempt: int = 1) -> None:
    """Store (step, name, value) as events of an attempt."""
    Attempt.objects.get_or_create(run=run, number=attempt, defaults={"submission_id": f"{run.pk}-{attempt}"})
    story = Story(run.pk, attempt)
    events = [story.event("media", step=step, name=name, values=[value.document()]) for step, name, value in logged]  # type: ignore[attr-defined] # fmt: skip
    batch_store(run.pk, encoded(events), "")
    run.refresh_from_db()


def shown(run: Run, step: int | None) -> dict[str, str]:
    """Name -> text at a step."""
    rows = values_of(run)
    names = [each.name for each in names_of(rows)[run.pk]]
    return {key[1]: values[0].content["text"] for key, values in values_at(rows, names, step).items()}


def test_each_name_shows_its_last_value_up_to_a_step(run: Run) -> None:
    store(run, (0, "a", Text("a0")), (2, "a", Text("a2")), (1, "b", Text("b1")), (2, "a", Text("again")))
    assert run.media_count == 4 and steps_of(values_of(run)) == [0, 1, 2]
    assert shown(run, 0) == {"a": "a0"}
    assert shown(run, 1) == {"a": "a0", "b": "b1"}
    assert shown(run, None) == {"a": "again", "b": "b1"}


def test_a_later_attempt_replaces_what_comes_after_its_first_step(run: Run) -> None:
    store(run, *((step, "a", Text(f"first {step}")) for step in range(5)))
    store(run, (2, "a", Text("second 2")), attempt=2)
    assert shown(run, None) == {"a": "second 2"} and shown(run, 1) == {"a": "first 1"}
    assert names_of(values_of(run))[run.pk][0].values == 3 and MediaValue.objects.count() == 6, (
        "nothing is deleted"
    )


def test_a_heat_map_spreads_bins_over_a_common_grid(run: Run) -> None:
    """The share of a cell is the sum of its overlaps with the bins, by a loop."""
    draw = np.random.default_rng(0)
    made = [Histogram(draw.normal(step, 1 + step, 50), bins=5 + step) for step in range(3)]
    store(run, *((step, "w", histogram) for step, histogram in enumerate(made)), (9, "w", Text("other")))
    drawn = heat_map(run, "w")
    assert drawn.steps == [0, 1, 2] and drawn.counts == [50.0] * 3
    edges = drawn.edges
    assert edges[0] == min(m.edges[0] for m in made) and len(edges) == BINS + 1
    for histogram, shares in zip(made, drawn.shares, strict=True):
        for cell, share in enumerate(shares):
            expected = 0.0
            for bin_, count in enumerate(histogram.counts):
                low, high = histogram.edges[bin_], histogram.edges[bin_ + 1]
                overlap = min(high, edges[cell + 1]) - max(low, edges[cell])
                expected += max(0.0, overlap) / (high - low) * count / 50
            assert share == pytest.approx(expected, abs=1e-5)


def test_values_and_their_contents_by_rest(run: Run, api: Client) -> None:
    image = Image([[0.0, 1.0]], caption="two pixels")
    store(run, (3, "shots/a b", image), (4, "note", Text("<b>")))
    names = api.get(f"/api/v1/runs/{run.pk}/media/").json()["results"]
    assert names[0] == {"name": "shots/a b", "kind": "image", "values": 1, "first_step": 3, "last_step": 3}
    page = api.get(f"/api/v1/runs/{run.pk}/media/", {"name": "shots/a b"}).json()
    assert page["next"] is None and page["results"][0]["caption"] == "two pixels"
    address = f"/api/v1/runs/{run.pk}/media/{page['results'][0]['id']}/"
    sent = api.get(address)
    assert (sent.content, sent["Content-Type"], sent["X-Content-Type-Options"]) == (image.data, "image/png", "nosniff")  # fmt: skip
    assert "no-cache" in sent["Cache-Control"], "access may end"
    assert api.get(address, headers={"If-None-Match": sent["ETag"]}).status_code == 304
    note = MediaValue.objects.get(name="note")
    assert api.get(f"/api/v1/runs/{run.pk}/media/{note.pk}/").json() == {"text": "<b>"}


def test_value_is_read_through_its_own_run_only(run: Run, user: User, project: Project, api: Client) -> None:
    store(run, (0, "a", Text("secret")))
    other = Run.objects.create(project=project, owner=user, name="other", config=run.config, iterations=1)
    value = MediaValue.objects.get()
    assert api.get(f"/api/v1/runs/{other.pk}/media/{value.pk}/").status_code == 404


def test_long_lists_are_paged(run: Run, api: Client) -> None:
    store(run, *((step, "a", Text(str(step))) for step in range(5)))
    seen, after = [], 0
    while after is not None:
        page = api.get(f"/api/v1/runs/{run.pk}/media/", {"name": "a", "limit": 2, "after": after}).json()
        seen += [value["step"] for value in page["results"]]
        after = page["next"]
    assert seen == [0, 1, 2, 3, 4]


def test_the_page_and_the_comparison_show_the_chosen_step(run: Run, ada: Client, user: User) -> None:
    store(run, (-2, "a", Text("first")), (0, "a", Text("early <i>")), (5, "a", Text("late")))
    other = Run.objects.create(project=run.project, owner=user, name="other", config=run.config, iterations=1)
    store(other, (3, "a", Text("beside")))
    page = ada.get(f"/runs/{run.pk}/media/", {"step": 4}).content.decode()
    assert "early &lt;i&gt;" in page and "late" not in page
    assert "first" in ada.get(f"/runs/{run.pk}/media/", {"step": -1}).content.decode()
    both = ada.get("/compare/media/", {"runs": f"{run.pk},{other.pk}"}).content.decode()
    assert "late" in both and "beside" in both
    assert "No media with this name" in ada.get(f"/runs/{run.pk}/media/", {"q": "zz"}).content.decode()


def test_media_count_for_the_storage_quota(run: Run) -> None:
    before = bytes_stored(run.project)
    store(run, (0, "a", Image([[0.0]])))
    assert bytes_stored(run.project) - before == MediaValue.objects.get().size > 60


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "image", "data": "PHN2Zy8+"},
        {"kind": "image", "data": "no base64!"},
        {"kind": "histogram", "counts": [1], "edges": [1, 0]},
        {"kind": "histogram", "counts": [1, 1], "edges": [0, 1]},
        {"kind": "histogram", "counts": [1], "edges": [-1e308, 1e308]},
        {"kind": "histogram", "counts": [1e308], "edges": [0, 1]},
        {"kind": "table", "columns": ["a"], "rows": [[1, 2]]},
        {"kind": "table", "columns": ["a"], "rows": [[{}]]},
        {"kind": "video", "data": ""},
    ],
)
def test_invalid_media_are_refused(run: Run, value: dict[str, object]) -> None:
    Attempt.objects.create(run=run, number=1, submission_id="x")
    event = Story(run.pk).event("media", step=0, name="a", values=[value])
    with pytest.raises(IngestRejected) as refused:
        batch_store(run.pk, json.dumps(event).encode(), "")
    assert refused.value.status == 400 and not MediaValue.objects.exists()
