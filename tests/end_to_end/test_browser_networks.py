"""Pages of a run of small networks, in a browser: what it really reported, the film of an evaluation, no words of language models."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, tell
from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SMALL = {
    "run.iterations": 2, "rollout.environments": 4, "evaluation.every": 2, "evaluation.episodes": 4,
    "evaluation.probes": 1,
}  # fmt: skip


def played(ada: User, preset: str, folder: Path) -> Run:
    """A short run of a preset, whole, and what it told."""
    run = run_make(ada, state="running")
    config = load_config(preset, SMALL)
    assert isinstance(config, MarlConfig)
    Run.objects.filter(pk=run.pk).update(
        name=preset, preset=preset, config=config.model_dump(mode="json"), iterations=2
    )
    assert run_attempt(Attempt(config, run.pk, 1, folder, folder), local=True) == 0
    for spool in sorted(folder.glob("attempt-1/spool/*.jsonl")):
        tell(run, map(json.loads, spool.read_text().splitlines()))
    run.refresh_from_db()
    return run


def test_tag_from_its_figures_to_the_last_picture(page: Page, ada: User, tmp_path: Path) -> None:
    run = played(ada, "tag_mappo", tmp_path)
    page.goto(f"/runs/{run.pk}/")
    tiles = page.locator(".tile dt")
    expect(tiles.filter(has_text="Return of adversaries")).to_have_count(3)
    expect(tiles.filter(has_text=re.compile("[Tt]oken|[Ss]uccess"))).to_have_count(0)
    page.goto(f"/runs/{run.pk}/transcripts/")
    expect(page.get_by_role("link", name="The same starts over training")).to_be_visible()
    expect(page.get_by_role("columnheader", name="return")).to_be_visible()
    expect(page.get_by_role("columnheader", name="tokens")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="steps")).to_be_visible()
    expect(page.locator("tbody td[data-label=outcome]").first).to_have_text("25 steps")
    expect(page.get_by_role("combobox", name="Return", exact=True)).to_be_visible()
    episode = Episode.objects.filter(run=run, kind="eval").latest("pk")
    assert episode.success is None
    page.goto(f"/runs/{run.pk}/curves/")
    expect(page.locator("select[data-view=x] option")).to_have_text(
        ["step", "wall time", "episodes", "environment steps"]
    )
    where = f"/runs/{run.pk}/episodes/{episode.pk}/"
    page.goto(where)
    expect(page.locator("[data-tokens]")).to_have_count(0)
    film, note = page.locator("[data-board]"), page.locator("[data-board-note]")
    drawing = film.locator("[data-board-drawing]")
    expect(note).to_have_text("before step 1 of 25")
    expect(page.get_by_role("link", name="tree")).to_have_count(0)
    expect(page.locator(".turn header").first).to_contain_text("3 agents")
    expect(film.locator("[data-board-legend] li")).to_have_text(["adversaries", "good", "obstacle"])
    first = drawing.locator(".entity.agent").first.get_attribute("cx")
    page.locator("[data-board-scrub]").focus()
    page.keyboard.press("End")
    expect(note).to_have_text("at the end")
    expect(drawing.locator(".entity.agent")).to_have_count(4)
    assert drawing.locator(".entity.agent").first.get_attribute("cx") != first
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(where)
    expect(note).to_have_text("before step 1 of 25")
    page.get_by_role("button", name="Play").click()
    expect(note).to_have_text("at the end")
    assert film.evaluate("each => each.getBoundingClientRect().top") >= 0, (
        "in sight while it plays, narrow too"
    )
