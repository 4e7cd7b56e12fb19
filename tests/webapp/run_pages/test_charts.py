"""Charts and tiles with which an overview begins, of runs of Troupe and of programs with their own training loop."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.elements import elements
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.files import load_config
from training_core.errors import ConfigError
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.agents.registry import agent_pages
from webapp.run_pages.charts import (
    CHARTS,
    DEFAULT,
    LAYOUTS,
    all_sections,
    layout_panels,
    named_panels,
    overview_panels,
    panel_get,
)
from webapp.run_pages.overview import Tile, overview_tiles, tile_keys, tile_specs
from webapp.runs.models import Run, RunSource
from webapp.runs.notes import MOST, headline_read, run_headline_set
from webapp.scheduling.client_runs import client_config, client_run_begin
from webapp.transcripts.models import Episode

PROGRAM = Run(source=RunSource.CLIENT, config=client_config(ClientRunBody(id="23456789")))
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
    found = panel_get(panel.id, SUPERVISED, PROGRAM)
    assert found and found.keys == panel.keys, "the chart has a page of its own"


def test_names_of_a_program_get_no_unit_and_no_range_of_troupe() -> None:
    keys = ["loss", "success", "time/step", "system/host/cpu_percent"]
    drawn = {panel.title: panel for section in all_sections(keys, PROGRAM) for panel in section.panels}
    assert [drawn[title].unit for title in ("loss", "success", "step")] == ["", "", ""]
    assert drawn["success"].range is None and drawn["cpu percent"].unit == "% of all cores"


def test_metrics_of_troupe_keep_their_tiles_and_charts_in_a_program() -> None:
    keys = ["train/return", "loss"]
    assert [spec.label for spec in tile_specs(PROGRAM, keys)] == ["Return per episode", "loss"]
    assert [panel.title for panel in overview_panels(PROGRAM, keys)] == ["Return", "loss"]


def test_a_choice_decides_tiles_and_the_first_charts() -> None:
    chosen = ["accuracy", "not/reported", "epoch"]
    assert tile_keys(tile_specs(PROGRAM, SUPERVISED, chosen), PROGRAM.config) == ["accuracy", "epoch"]
    charts = [panel.title for panel in overview_panels(PROGRAM, SUPERVISED, chosen)]
    assert charts == ["accuracy", "epoch", "loss", "lr"]
    (_, counter, *_) = overview_panels(PROGRAM, SUPERVISED, chosen)
    assert panel_get(counter.id, SUPERVISED, PROGRAM) == counter, "a chosen counter has a page of its own"


def test_a_choice_is_of_the_program_and_then_of_the_page(program: Run, user: User, ada: Client) -> None:
    assert program.headline_keys == ["loss", "f1"]
    ada.post(f"/runs/{program.pk}/headline/", {"headline": "f1\n\n lr \nf1"})
    program.refresh_from_db()
    assert program.headline_keys == ["f1", "lr"]
    (text,) = elements(ada.get(f"/runs/{program.pk}/"), "textarea[name=headline]")
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


def test_an_overview_without_data_has_no_tiles_no_charts_and_no_empty_tabs(program: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{program.pk}/")
    assert not elements(page, ".tile") and not elements(page, ".chart")
    assert [tab.text for tab in elements(page, ".tabs a") if "href" in tab][:4] == [
        "Overview", "Curves", "Health", "Logs",
    ]  # fmt: skip
    assert [badge.text for badge in elements(page, ".page-head .badge")] == []


def test_a_program_can_be_stopped_and_nothing_else(program: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{program.pk}/")
    assert [button.text for button in elements(page, ".page-head .acts button")] == ["Stop", "Stopping …"]


def test_a_program_that_only_logs_episodes_has_their_figures(program: Run, ada: Client) -> None:
    for number, success in enumerate((True, False, True, None)):
        Episode.objects.create(
            run=program, attempt=1, cursor=number, iteration=number, name=f"e{number}", success=success, episode_return=number,
            turn_count=1, tokens=0, started=0.0, ended=1.0,
        )  # fmt: skip
    Run.objects.filter(pk=program.pk).update(episode_counts={"train": 4})
    page = ada.get(f"/runs/{program.pk}/")
    assert [value.text for value in elements(page, ".tile .value")] == ["4", "0.67", "1.50"]
    assert any(tab.text.startswith("Transcripts") for tab in elements(page, ".tabs a"))


@pytest.fixture
def config() -> dict[str, Any]:
    return load_config("plan_path_duo").model_dump(mode="json")


def tiles_of(config: dict[str, Any], series: dict[str, Any], forked_at: int = 0) -> list[Tile]:
    return overview_tiles(config, tile_specs(Run(config=config), list(series)), series, forked_at)


def of(config: dict[str, Any], algorithm: str) -> dict[str, Any]:
    return {**config, "algorithm": {**config["algorithm"], "type": algorithm}}


@pytest.mark.parametrize("algorithm", [*ALGORITHM_CONFIGS, *LAYOUTS, "of tomorrow"])
def test_every_algorithm_has_a_layout_of_charts_that_exist(config: dict[str, Any], algorithm: str) -> None:
    names = LAYOUTS.get(algorithm, DEFAULT)
    assert set(names) <= set(CHARTS) and len(set(names)) == len(names)
    chosen = Run(config=of(config, algorithm))
    assert overview_panels(chosen, []) == [], "nothing is reported yet"
    keys = [key for panel in layout_panels(chosen) for key in panel.keys]
    panels = [panel.id for panel in overview_panels(chosen, keys)]
    assert panels == list(names[: len(panels)]) and len(panels) % 3 == 0


def test_roles_and_policies_have_a_line_each(config: dict[str, Any]) -> None:
    panels = {panel.id: panel for panel in layout_panels(Run(config=config))}
    assert [line.key for line in panels["reward"].lines] == ["train/planner/reward", "train/executor/reward"]
    assert [line.label for line in panels["entropy"].lines] == ["planner", "executor"]
    assert panels["success"].range == (0.0, 1.0) and panels["groups"].unit == "share"


def test_charts_of_what_is_not_reported_are_left_out(config: dict[str, Any]) -> None:
    keys = ["train/return", "eval/success", "policy/planner/grad_norm", "policy/planner/value_loss"]
    assert [panel.id for panel in overview_panels(Run(config=config), keys)] == [
        "success",
        "return",
        "gradient",
    ]
    (line,) = overview_panels(Run(config=config), keys)[0].lines
    assert line.key == "eval/success", "its other line has no data"
    assert [panel.id for panel in overview_panels(Run(config=of(config, "ppo")), keys)] == [
        "success",
        "return",
        "value",
        "gradient",
    ]


def test_a_chart_is_found_by_its_id_and_ids_differ(config: dict[str, Any]) -> None:
    keys, run = ["policy/planner/a.b", "policy/planner/ab", "eval/success"], Run(config=config)
    ids = [panel.id for section in all_sections(keys, run) for panel in section.panels]
    assert sorted(ids) == ["eval-success", "policy-ab", "policy-ab--2"]
    found = panel_get("policy-ab--2", keys, run)
    assert found and [line.key for line in found.lines] == ["policy/planner/ab"]
    assert panel_get("kl", keys, run) and panel_get("nothing", keys, run) is None


def test_tiles_show_last_values_and_what_they_moved(config: dict[str, Any]) -> None:
    series = {
        "eval/success": {"values": [0.25, "NaN", 0.75]},
        "train/planner/reward": {"values": [1.0, 2.0]},
        "rollout/failed": {"values": [3.0]},
    }
    tiles = {tile.label: tile.figures for tile in tiles_of(config, series)}
    assert list(tiles) == ["Success, greedy", "Reward by role", "Errors"], "those with data"
    assert (tiles["Success, greedy"][0].value, tiles["Success, greedy"][0].change) == (0.75, 0.5)
    assert [(each.under, each.value) for each in tiles["Reward by role"]] == [("planner", 2.0)]
    assert [each.value for each in tiles["Errors"]] == [3.0]
    (broken,) = tiles_of(config, {"eval/success": {"values": [0.25, 0.5, "NaN"]}})[0].figures
    assert (broken.value, broken.change) == ("NaN", None)


def test_tiles_of_a_fork_count_from_its_checkpoint(config: dict[str, Any]) -> None:
    series = {"eval/success": {"values": [0.75, 0.875]}}
    series |= {"rollout/staleness": {"values": [1.0]}}
    since = {figure.key: figure.since for tile in tiles_of(config, series, 80) for figure in tile.figures}
    assert since == {"eval/success": "iteration 80", "rollout/staleness": ""}


def test_compute_has_a_chart_a_measure_and_a_line_a_policy() -> None:
    keys = [
        f"compute/{policy}/{name}"
        for policy in ("planner", "executor")
        for name in ("update_mfu", "rollout_mfu")
    ]
    (section,) = all_sections(keys, Run(config=load_config("plan_path_duo").model_dump(mode="json")))
    assert section.name == "Compute"
    assert [(panel.title, panel.unit, [line.label for line in panel.lines]) for panel in section.panels] == [
        (f"{phase} mfu", "share of the device's peak", ["planner", "executor"])
        for phase in ("update", "rollout")
    ]


def test_small_networks_have_tiles_and_units_of_their_own() -> None:
    config = load_config("spread_toy").model_dump(mode="json")
    series = {"eval/return": {"values": [43.0, 125.0]}, "rollout/failed": {"values": [0.0, 2.0]}}
    tiles = {tile.label: tile.figures for tile in tiles_of(config, series)}
    assert [(figure.key, figure.value) for figure in tiles["Failed episodes"]] == [("rollout/failed", 2.0)]
    assert (tiles["Return, greedy"][0].value, tiles["Return, greedy"][0].change) == (125.0, 82.0)
    assert not any("token" in key for key in tile_keys(agent_pages(config).tiles, config))
    sides = load_config("tag_mappo").model_dump(mode="json")
    sides["team"]["roles"] = dict(
        sorted(sides["team"]["roles"].items(), reverse=True)
    )  # as a database may keep them
    returns = dict.fromkeys(("eval/return", "eval_sampled/return", "train/return"), {"values": [1.0]})
    assert [tile.label for tile in tiles_of(sides, returns)] == [
        f"Return of adversaries{word}" for word in (", greedy", ", sampled", " in training")
    ]
    told = (
        "entropy",
        "kl",
        "value_loss",
        "explained_variance",
        "ratio_mean",
        "ratio_std",
        "grad_norm",
        "critic_grad_norm",
        "epochs",
    )
    (section,) = all_sections([f"policy/agents/{name}" for name in told], Run(config=config))
    units = {panel.title: panel.unit for panel in section.panels}
    assert units["entropy"] == units["kl"] == "nats per action" and all(units.values())


def test_charts_of_devices_have_units(config: dict[str, Any]) -> None:
    (section,) = all_sections(
        ["system/host-1/gpu0_memory_gib", "system/host-1/gpu12_percent"], Run(config=config)
    )
    assert {panel.unit for panel in section.panels} == {"GiB", "%"}
