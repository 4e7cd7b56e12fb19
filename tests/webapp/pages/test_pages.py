"""Every page: what it shows, to whom."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.end_to_end.seed import HOSTILE, Story, encoded, hostile
from tests.webapp.elements import elements, texts_of
from webapp.accounts.models import Membership, Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run
from webapp.stack.home import MODEL_IN_WORK
from webapp.transcripts.bodies import episode_document
from webapp.transcripts.models import Episode

pytestmark = pytest.mark.django_db
TABS = ("detail", "curves", "checkpoints", "logs", "config")


def page_data(html: str) -> dict:
    """What the page hands to its script."""
    return json.loads(elements(html, "#run-page")[0].content)


def read(client: Client, name: str, *args: object, **query: object) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_short_address_of_sweeps_leads_to_their_page(ada: Client) -> None:
    answer = ada.get("/sweeps/?q=a")
    assert (answer.status_code, answer.url) == (302, "/experiments/sweeps/?q=a")
    assert ada.get(answer.url).status_code == 200


def test_empty_list_shows_the_first_step(ada: Client) -> None:
    html = read(ada, "runs:list")
    assert "troupe launch plan_path_duo" in html and "?preset=plan_path_duo" in html
    assert "base model of the demonstration" not in html


def test_an_empty_project_offers_the_next_step(ada: Client, told: Run) -> None:
    bare = Project.objects.create(slug="bare", name="Bare")
    Membership.objects.create(
        project=bare, user=User.objects.get(username="ada"), level=Membership.Level.OWNER
    )
    html = read(ada, "runs:list", project="bare")
    assert "No runs in this project yet" in html and "/experiments/new/?project=bare" in html
    assert "No run matches" in read(ada, "runs:list", project="bare", q="none")
    form = ada.get("/experiments/new/?project=bare").content.decode()
    chosen = [
        option["value"] for option in elements(form, "select[name=project] option") if "selected" in option
    ]
    assert chosen == ["bare"]
    assert "preset=spread_mappo&amp;project=bare" in form, "another preset keeps the project"


def test_an_ended_run_says_what_it_has_not_written(ada: Client, told: Run) -> None:
    Checkpoint.objects.all().delete()
    assert "The first checkpoint is written" in read(ada, "runs:detail", told.pk)
    assert texts_of(read(ada, "runs:detail", told.pk), "[data-region=episodes-live]") == ["live"]
    Run.objects.filter(pk=told.pk).update(state="failed")
    html = read(ada, "runs:detail", told.pk)
    assert not elements(html, "#kept-title")
    assert texts_of(html, "[data-region=episodes-live]") == [""]
    assert "This run wrote no checkpoint." in " ".join(read(ada, "runs:checkpoints", told.pk).split())


def test_a_fork_refers_to_its_parent_for_the_base_model(ada: Client, told: Run) -> None:
    parent = Run.objects.create(
        project=told.project, owner=told.owner, name="parent", config=told.config, iterations=40
    )
    Run.objects.filter(pk=told.pk).update(parent=parent, parent_iteration=20)
    html = read(ada, "runs:detail", told.pk)
    assert "Its evaluation is in the" in html and "data-not-evaluated" not in html


def test_first_page_reports_preparation_of_demonstration(ada: Client, settings: Any, tmp_path: Path) -> None:
    settings.TROUPE_HOME = tmp_path
    (tmp_path / MODEL_IN_WORK).touch()
    assert "The base model of the demonstration is being created" in read(ada, "runs:list")


def test_list_shows_filters_and_finds(ada: Client, told: Run) -> None:
    Run.objects.filter(pk=told.pk).update(tags=["ablation"], name="per role")
    html = read(ada, "runs:list")
    assert "per role" in html and 'class="spark"' in html and "22 of" in html
    assert "per role" in read(ada, "runs:list", tag="ablation", state="running", q="per")
    assert "No run matches these filters" in read(ada, "runs:list", state="failed")
    assert "No run matches these filters" in read(ada, "runs:list", q="elsewhere")
    assert "per role" in read(ada, "runs:list", state="nonsense")


@pytest.mark.parametrize("tab", TABS)
def test_tabs_open_and_mark_their_tab(ada: Client, told: Run, tab: str) -> None:
    address = reverse(f"runs:{tab}", args=[told.pk])
    html = read(ada, f"runs:{tab}", told.pk)
    assert elements(html, f".tabs a[href={address}][aria-current=page]")
    data = page_data(html)
    assert data["id"] == told.pk and data["cursor"] == told.event_count and data["summary"]["iteration"] == 22


@pytest.mark.parametrize("tab", TABS)
def test_new_runs_have_pages_too(ada: Client, run: Run, tab: str) -> None:
    read(ada, f"runs:{tab}", run.pk)


def test_viewers_have_no_buttons_and_are_refused(viewer: Client, ada: Client, told: Run) -> None:
    stop = reverse("runs:act", args=[told.pk, "stop"])
    assert stop in read(ada, "runs:detail", told.pk)
    assert "/act/" not in read(viewer, "runs:detail", told.pk)
    assert viewer.post(stop).status_code == 403
    assert "can configure an experiment and copy it" in read(viewer, "experiments:new")


def test_stop_leads_back_and_shows_that_it_stops(ada: Client, told: Run) -> None:
    logs = reverse("runs:logs", args=[told.pk])
    answer = ada.post(reverse("runs:act", args=[told.pk, "stop"]), {"next": logs})
    assert answer.status_code == 302 and answer.url == logs
    told.refresh_from_db()
    assert told.state == "stopping"
    assert ada.post(
        reverse("runs:act", args=[told.pk, "stop"]), {"next": "https://evil.example/"}
    ).url.startswith("/runs/")
    assert ada.post(reverse("runs:act", args=[told.pk, "explode"])).status_code == 404
    assert ada.get(reverse("runs:act", args=[told.pk, "stop"])).status_code == 405


def test_refused_acts_say_why(ada: Client, told: Run) -> None:
    answer = ada.post(reverse("runs:act", args=[told.pk, "resume"]), follow=True)
    assert "a run that is running cannot be resumed" in answer.content.decode()
    Run.objects.filter(pk=told.pk).update(state="finished")
    answer = ada.post(reverse("runs:act", args=[told.pk, "pause"]), follow=True)
    assert "a run that is finished cannot be paused" in answer.content.decode()


def test_overview_has_figures_curves_and_the_base_model(ada: Client, told: Run) -> None:
    html = read(ada, "runs:detail", told.pk)
    data = page_data(html)
    assert [panel["id"] for panel in data["charts"]] == [
        "success", "return", "reward", "entropy", "kl", "groups",
    ]  # fmt: skip
    assert len(data["series"]["train/return"]["steps"]) == 22
    assert "221,696 parameters" in html and "35% were noise" in html
    first = data["series"]["eval/success"]["values"][0]
    assert f"{first:.2f}" in texts_of(html, "strong")
    assert "since base" in html


def test_roles_have_one_colour(ada: Client, told: Run) -> None:
    data = page_data(read(ada, "runs:detail", told.pk))
    tones = {line["label"]: line["tone"] for panel in data["charts"][2:] for line in panel["lines"]}
    assert tones == {"planner": 1, "executor": 2}
    episode = Episode.objects.filter(run=told, kind="train").first()
    html = read(ada, "transcripts:detail", told.pk, episode.pk)
    turns = elements(html, "li.turn")
    assert {(each["data-tone"], each["aria-label"].split()[-1]) for each in turns} == {
        ("1", "planner"),
        ("2", "executor"),
    }


def test_curves_group_what_belongs_together(ada: Client, told: Run) -> None:
    panels = page_data(read(ada, "runs:curves", told.pk))["charts"]
    entropy = next(panel for panel in panels if panel["id"] == "policy-entropy")
    assert [line["key"] for line in entropy["lines"]] == ["policy/planner/entropy", "policy/executor/entropy"]
    keys = [line["key"] for panel in panels for line in panel["lines"]]
    assert len(keys) == len(set(keys)) == told.series.count()


def test_transcripts_filter(ada: Client, told: Run) -> None:
    def names(**query: object) -> set[str]:
        html = read(ada, "transcripts:list", told.pk, **query)
        return {Episode.objects.get(pk=pk).name for pk in re.findall(r'id="episode-(\d+)"', html)}

    everything = set(told.episodes.values_list("name", flat=True))
    assert names() == names(iteration="x") == everything
    assert names(outcome="failed") == {"1-12-train-0"} and names(kind="eval", iteration="3") == set()
    newest = told.episodes.order_by("-pk").first()
    assert names(before=str(newest.pk)) == everything - {newest.name}


def test_a_failed_episode_is_shown_as_such(ada: Client, told: Run) -> None:
    episode = Episode.objects.get(run=told, failed=True)
    assert "error: RuntimeError: the grid has no way out" in read(ada, "transcripts:list", told.pk)
    html = read(ada, "transcripts:detail", told.pk, episode.pk)
    assert "The environment raised an error" in html and "RuntimeError: the grid has no way out" in html


def test_transcript_shows_turns_candidates_and_what_was_carried_on(ada: Client, told: Run) -> None:
    episode = Episode.objects.filter(run=told, kind="train", failed=False).first()
    html = read(ada, "transcripts:detail", told.pk, episode.pk)
    turns = episode_document(episode)["turns"]
    assert html.count('class="turn"') == len(turns)
    assert html.count('class="candidate executed"') == len(turns)
    assert html.count("data-candidate=") == 8 * len(turns)
    assert page_data(html)["transcript"] == {
        "episode": episode.pk, "count": len(turns), "piece": 50, "first": 0, "boards": True,
        "tones": {"planner": 1, "executor": 2}, "step": "", "roles": 2,
    }  # fmt: skip
    assert "token_ids" not in html and "logprobs" not in html, "tokens are read when they are looked at"
    assert 'id="turn-1"' in html


def test_a_thinned_episode_says_so(ada: Client, told: Run) -> None:
    episode = Episode.objects.filter(run=told).first()
    episode.body.delete()
    assert "Only metadata of this episode are stored" in read(ada, "transcripts:detail", told.pk, episode.pk)


def test_scripts_in_any_text_are_shown_as_text(ada: Client, run: Run) -> None:
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk)
    batch_store(run.pk, encoded(hostile(story.opening())), "")
    batch_store(run.pk, encoded(hostile(story.iterations(0, 2, whole=1))), "")
    Run.objects.filter(pk=run.pk).update(name=HOSTILE[:120], tags=[HOSTILE[:60]], reason=HOSTILE)
    Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=1, path=HOSTILE, size=1, time="2026-01-01T00:00Z", metrics={}
    )
    addresses = [reverse(f"runs:{tab}", args=[run.pk]) for tab in TABS]
    addresses += [reverse("runs:list"), reverse("transcripts:list", args=[run.pk])]
    addresses += [reverse("transcripts:detail", args=[run.pk, each.pk]) for each in run.episodes.all()]
    for address in addresses:
        html = ada.get(address).content.decode()
        assert "<script>window" not in html and "<img src=x" not in html, address
        assert 'href="javascript:' not in html
    shown = ada.get(addresses[-1]).content.decode()
    assert shown.count("&lt;script&gt;window.hacked = 1&lt;/script&gt;") > 10


def test_config_shows_what_was_changed(ada: Client, told: Run) -> None:
    config = told.config
    config["algorithm"]["clip_low"] = 0.25
    Run.objects.filter(pk=told.pk).update(config=config)
    html = read(ada, "runs:config", told.pk)
    assert "algorithm.clip_low" in html and "algorithm.clip_low=0.25" in html and "clip_low = 0.25" in html
    assert html.count('data-label="this run"') == 1


def test_config_of_another_version_is_still_shown(ada: Client, told: Run) -> None:
    Run.objects.filter(pk=told.pk).update(config={**told.config, "gone": {"field": 1}})
    assert "another version of Troupe" in read(ada, "runs:config", told.pk)


def test_checkpoints_show_best_and_removed(ada: Client, told: Run) -> None:
    fields = {"path": "checkpoints/000005", "size": 1000, "removed": True, "time": "2026-01-01T00:00Z"}
    Checkpoint.objects.create(run=told, attempt=1, cursor=1, iteration=5, **fields)
    html = read(ada, "runs:checkpoints", told.pk)
    assert html.count("data-best") == 1 and "deleted to save space" in html and "5.3 MB" in html


def test_templates_hold_no_inline_script_style_or_safe() -> None:
    for template in Path("templates").rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), template
        assert not re.search(r"\sstyle=|\son\w+=|(?<!help_text)\|safe\b|autoescape off|mark_safe", text), (
            template
        )
    for script in Path("static/js").rglob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", script.read_text()
        ), script


@pytest.mark.parametrize("address", ["/runs/nothere/", "/nowhere/"])
def test_missing_pages_are_in_the_design(ada: Client, client: Client, address: str) -> None:
    answer = ada.get(address)
    assert answer.status_code == 404 and "Page not found" in answer.content.decode()


def test_a_running_run_says_where_agents_of_ones_own_reach_it(ada: Client, told: Run) -> None:
    assert 'id="gateway-title"' not in read(ada, "runs:detail", told.pk)
    facts = told.facts | {"gateway": "http://127.0.0.1:40123"}
    Run.objects.filter(pk=told.pk).update(facts=facts)
    html = read(ada, "runs:detail", told.pk)
    assert 'id="gateway-title"' in html and "http://127.0.0.1:40123" in html and "gateway.json" in html
    Run.objects.filter(pk=told.pk).update(state="finished")
    assert 'id="gateway-title"' not in read(ada, "runs:detail", told.pk)
