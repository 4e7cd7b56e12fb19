"""Which charts an overview begins with."""

from typing import Any

import pytest

from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.files import load_config
from webapp.agents.registry import agent_pages
from webapp.run_pages.charts import all_sections
from webapp.run_pages.layouts import CHARTS, DEFAULT, LAYOUTS, layout_panels, overview_panels, panel_get
from webapp.run_pages.tiles import Tile, overview_tiles, tile_keys, tile_specs


@pytest.fixture
def config() -> dict[str, Any]:
    return load_config("plan_path_duo").model_dump(mode="json")


def tiles_of(config: dict[str, Any], series: dict[str, Any], forked_at: int = 0) -> list[Tile]:
    return overview_tiles(config, tile_specs(config, list(series)), series, forked_at)


def of(config: dict[str, Any], algorithm: str) -> dict[str, Any]:
    return {**config, "algorithm": {**config["algorithm"], "type": algorithm}}


@pytest.mark.parametrize("algorithm", [*ALGORITHM_CONFIGS, *LAYOUTS, "of tomorrow"])
def test_every_algorithm_has_a_layout_of_charts_that_exist(config: dict[str, Any], algorithm: str) -> None:
    names = LAYOUTS.get(algorithm, DEFAULT)
    assert set(names) <= set(CHARTS) and len(set(names)) == len(names)
    chosen = of(config, algorithm)
    assert overview_panels(chosen, []) == [], "nothing is reported yet"
    keys = [key for panel in layout_panels(chosen) for key in panel.keys]
    panels = [panel.id for panel in overview_panels(chosen, keys)]
    assert panels == list(names[: len(panels)]) and len(panels) % 3 == 0


def test_roles_and_policies_have_a_line_each(config: dict[str, Any]) -> None:
    panels = {panel.id: panel for panel in layout_panels(config)}
    assert [line.key for line in panels["reward"].lines] == ["train/planner/reward", "train/executor/reward"]
    assert [line.label for line in panels["entropy"].lines] == ["planner", "executor"]
    assert panels["success"].range == (0.0, 1.0) and panels["groups"].unit == "share"


def test_charts_of_what_is_not_reported_are_left_out(config: dict[str, Any]) -> None:
    keys = ["train/return", "eval/success", "policy/planner/grad_norm", "policy/planner/value_loss"]
    assert [panel.id for panel in overview_panels(config, keys)] == ["success", "return", "gradient"]
    (line,) = overview_panels(config, keys)[0].lines
    assert line.key == "eval/success", "its other line has no data"
    assert [panel.id for panel in overview_panels(of(config, "ppo"), keys)] == [
        "success",
        "return",
        "value",
        "gradient",
    ]


def test_a_chart_is_found_by_its_id_and_ids_differ(config: dict[str, Any]) -> None:
    keys = ["policy/planner/a.b", "policy/planner/ab", "eval/success"]
    ids = [panel.id for section in all_sections(keys, config) for panel in section.panels]
    assert sorted(ids) == ["eval-success", "policy-ab", "policy-ab--2"]
    found = panel_get("policy-ab--2", keys, config)
    assert found and [line.key for line in found.lines] == ["policy/planner/ab"]
    assert panel_get("kl", keys, config) and panel_get("nothing", keys, config) is None


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
    (section,) = all_sections(keys, load_config("plan_path_duo").model_dump(mode="json"))
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
    (section,) = all_sections([f"policy/agents/{name}" for name in told], config)
    units = {panel.title: panel.unit for panel in section.panels}
    assert units["entropy"] == units["kl"] == "nats per action" and all(units.values())


def test_charts_of_devices_have_units(config: dict[str, Any]) -> None:
    (section,) = all_sections(["system/host-1/gpu0_memory_gib", "system/host-1/gpu12_percent"], config)
    assert {panel.unit for panel in section.panels} == {"GiB", "%"}
