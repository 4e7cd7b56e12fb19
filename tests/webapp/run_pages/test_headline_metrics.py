"""The overview of a program with its own training loop: tiles and charts of what it has logged."""

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.elements import elements
from training_core.errors import ConfigError
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.run_pages.charts import all_sections
from webapp.run_pages.headline_metrics import named_panels
from webapp.run_pages.layouts import overview_panels, panel_get
from webapp.run_pages.tiles import tile_keys, tile_specs
from webapp.runs.headlines import MOST, headline_read, run_headline_set
from webapp.runs.models import Run
from webapp.scheduling.client_runs import client_config, client_run_begin
from webapp.transcripts.models import Episode

CONFIG = client_config(ClientRunBody(id="23456789"))
SUPERVISED = ["epoch", "lr", "loss", "accuracy", "eval/loss", "val_accuracy"]


@pytest.fixture
def program(user: User, project: Project) -> Run:
    run, _ = client_run_begin(user, project, ClientRunBody(id="23456789", headline=["loss", "f1"]))
    return run


def test_splits_of_a_metric_share_a_chart_and_counters_have_none() -> None:
    charts = [(panel.title, panel.keys) for panel in named_panels(SUPERVISED)]
    assert charts == [
        ("loss", ["loss", "eval/loss"]),
        ("accuracy", ["accuracy", "val_accuracy"]),
        ("lr", ["lr"]),
    ]
    panel = named_panels(SUPERVISED)[0]
    found = panel_get(panel.id, SUPERVISED, CONFIG)
    assert found and found.keys == panel.keys, "the chart has a page of its own"


def test_names_of_a_program_get_no_unit_and_no_range_of_troupe() -> None:
    keys = ["loss", "success", "time/step", "system/host/cpu_percent"]
    drawn = {panel.title: panel for section in all_sections(keys, CONFIG) for panel in section.panels}
    assert [drawn[title].unit for title in ("loss", "success", "step")] == ["", "", ""]
    assert drawn["success"].range is None and drawn["cpu percent"].unit == "% of all cores"


def test_metrics_of_troupe_keep_their_tiles_and_charts_in_a_program() -> None:
    keys = ["train/return", "loss"]
    assert [spec.label for spec in tile_specs(CONFIG, keys)] == ["Return per episode", "loss"]
    assert [panel.title for panel in overview_panels(CONFIG, keys)] == ["Return", "loss"]


def test_a_choice_decides_tiles_and_the_first_charts() -> None:
    chosen = ["accuracy", "not/reported", "epoch"]
    assert tile_keys(tile_specs(CONFIG, SUPERVISED, chosen), CONFIG) == ["accuracy", "epoch"]
    charts = [panel.title for panel in overview_panels(CONFIG, SUPERVISED, chosen)]
    assert charts == ["accuracy", "epoch", "loss", "lr"]
    (_, counter, *_) = overview_panels(CONFIG, SUPERVISED, chosen)
    assert panel_get(counter.id, SUPERVISED, CONFIG) == counter, "a chosen counter has a page of its own"


def test_a_choice_is_of_the_program_and_then_of_the_page(program: Run, user: User, client: Client) -> None:
    assert program.headline_keys == ["loss", "f1"]
    client.force_login(user)
    client.post(f"/runs/{program.pk}/headline/", {"headline": "f1\n\n lr \nf1"})
    program.refresh_from_db()
    assert program.headline_keys == ["f1", "lr"]
    (text,) = elements(client.get(f"/runs/{program.pk}/"), "textarea[name=headline]")
    assert text.content.splitlines() == ["f1", "lr"]
    again = ClientRunBody(id=program.pk, headline=["loss"], resume="allow")
    resumed, _ = client_run_begin(user, program.project, again)
    assert resumed.headline_keys == ["f1", "lr"]


def test_only_editors_choose_and_wrong_choices_are_refused(
    program: Run, stranger: User, client: Client
) -> None:
    client.force_login(stranger)
    assert client.post(f"/runs/{program.pk}/headline/", {"headline": "lr"}).status_code == 404
    with pytest.raises(PermissionDenied):
        run_headline_set(stranger, program, ["lr"])
    for names in ([f"m{number}" for number in range(MOST + 1)], ["x" * 201]):
        with pytest.raises(ConfigError):
            headline_read(names)


def test_an_overview_without_data_has_no_tiles_no_charts_and_no_empty_tabs(
    program: Run, user: User, client: Client
) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{program.pk}/")
    assert not elements(page, ".tile") and not elements(page, ".chart")
    assert [tab.text for tab in elements(page, ".tabs a") if "href" in tab][:4] == [
        "Overview", "Curves", "Health", "Logs",
    ]  # fmt: skip
    assert [badge.text for badge in elements(page, ".page-head .badge")] == []


def test_a_program_can_be_stopped_and_nothing_else(program: Run, user: User, client: Client) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{program.pk}/")
    assert [button.text for button in elements(page, ".page-head .acts button")] == ["Stop", "Stopping …"]


def test_a_program_that_only_logs_episodes_has_their_figures(
    program: Run, user: User, client: Client
) -> None:
    for number, success in enumerate((True, False, True, None)):
        Episode.objects.create(
            run=program, attempt=1, cursor=number, iteration=number, name=f"e{number}", success=success, episode_return=number,
            turn_count=1, tokens=0, started=0.0, ended=1.0,
        )  # fmt: skip
    Run.objects.filter(pk=program.pk).update(episode_counts={"train": 4})
    client.force_login(user)
    page = client.get(f"/runs/{program.pk}/")
    assert [value.text for value in elements(page, ".tile .value")] == ["4", "0.67", "1.50"]
    assert any(tab.text.startswith("Transcripts") for tab in elements(page, ".tabs a"))
