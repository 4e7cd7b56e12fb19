"""Estimates against a cluster: verdicts, the fragment beside the form, the API."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.webapp.pages.test_experiment import posted
from training_core.config.files import load_config
from webapp.experiments.estimates import verdict
from webapp.runs.models import Run
from workers.launchers.launcher import Capacity, Node
from workers.launchers.registry import FakeLauncher
from workers.sizing.estimates import estimate

ESTIMATE = "/experiments/estimate/"
BIG = {
    "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
}  # fmt: skip
pytestmark = pytest.mark.django_db


def cluster(cpus: float = 4.0, gpus: float = 0.0, memory: int = 16 * 10**9, gpu_memory: int = 0) -> Capacity:
    node = Node("a", "one", cpus, gpus, cpus, gpus, True, memory, gpu_memory)
    return Capacity(cpus, gpus, cpus, gpus, (node,))


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    fake = FakeLauncher(devices=cluster())
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    return fake


@pytest.fixture
def big(tmp_path: Path, settings: Any) -> dict[str, str]:
    """Overrides that give both policies a model of 7.6 billion parameters."""
    settings.TROUPE_MODEL_FOLDERS = [str(tmp_path)]
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "config.json").write_text(json.dumps(BIG))
    return {f"policies.{name}.model": str(tmp_path / "big") for name in ("planner", "executor")}


def judged(capacity: Capacity | None, **changes: object) -> tuple[str, list[str]]:
    overrides = {path.replace("__", "."): value for path, value in changes.items()}
    config = load_config("plan_path_duo", overrides)
    judged = verdict(config, estimate(config, Path("/nonexistent")), capacity)
    return judged.level, judged.reasons


def test_devices_fit_wait_or_never_fit(run: Run) -> None:
    assert judged(None)[0] == "unknown"
    level, (reason,) = judged(cluster(0.5))
    assert level == "never"  # the run that waits could not run there either
    fits = dict(pair.split("=") for pair in reason.rstrip(".").split("set ")[1].split(" "))
    assert judged(cluster(0.5), **{path.replace(".", "__"): float(value) for path, value in fits.items()})[
        0
    ] in ("fits", "waits")
    assert judged(cluster(2.0))[0] == "waits"  # a run that waits takes 1.3 cores of 2
    assert judged(cluster(4.0)) == ("fits", [])
    run.state = "running"
    run.save()
    (reason,) = judged(cluster(2.0))[1]
    assert reason == "Needs 1.3 CPU cores; 0.7 are free after the runs ahead of it."


def test_memory_that_no_gpu_has_names_the_remedy(big: dict[str, str]) -> None:
    gpus = {f"policies__{name}__devices__rollout_gpus": 1.0 for name in ("planner", "executor")}
    changes = {path.replace(".", "__"): value for path, value in big.items()} | gpus
    level, reasons = judged(cluster(4.0, 2.0, 10**12, 80 * 2**30), **changes)
    assert level == "never" and len(reasons) == 3
    assert reasons[2].startswith("The memory suffices with policies.planner.") and reasons[1].endswith(".")
    assert "rollout and update worker of planner needs" in reasons[0]
    assert "85.9 GB of a GPU" in reasons[0] and "Most of it is" in reasons[0]
    assert judged(cluster(4.0, 2.0, 10**12, 10**13), **changes)[0] == "fits"
    assert (
        judged(cluster(4.0, 2.0, 10**12, 0), **changes)[0] == "fits"
    )  # not told: nothing to hold against it


def test_main_memory_is_shared_by_all_workers(big: dict[str, str]) -> None:
    changes = {path.replace(".", "__"): value for path, value in big.items()}
    (reason,) = judged(cluster(4.0, memory=16 * 10**9), **changes)[1]
    assert reason.startswith("Its workers need ") and "of main memory" in reason
    assert judged(cluster(4.0, memory=10**13), **changes)[0] == "fits"


def test_the_fragment_follows_the_form(ada: Client, launcher: FakeLauncher) -> None:
    html = ada.post(ESTIMATE, posted(ada)).content.decode()
    assert "Fits the cluster now" in html and "200,512 parameters" in html and "30,720" in html
    form = posted(ada) | {"resources.environment_workers": "100", "rollout.group_size": "4"}
    html = ada.post(ESTIMATE, form).content.decode()
    assert "Does not fit the cluster" in html and "Needs 11.1 CPU cores; the cluster has 4" in html
    assert "15,360" in html
    assert "Fix the errors above" in ada.post(ESTIMATE, form | {"rollout.tasks": "many"}).content.decode()
    launcher.reachable = False
    assert "does not answer" in ada.post(ESTIMATE, posted(ada)).content.decode()


def test_unknown_memory_never_counts_as_fitting(ada: Client, launcher: FakeLauncher) -> None:
    model = {"policies__planner__model": "nobody/no-model"}
    level, reasons = judged(cluster(), **model)
    assert level == "unknown" and reasons[0].startswith("Memory not known, planner: ")
    assert judged(cluster(0.5), **model)[0] == "never"
    form = posted(ada) | {"policies.planner.model": "nobody/no-model"}
    html = ada.post(ESTIMATE, form).content.decode()
    assert ">Memory not known</strong>" in html and "Fits the cluster now" not in html


def test_the_length_of_prompts_is_an_assumption_that_can_be_changed(
    ada: Client, launcher: FakeLauncher, big: dict[str, str]
) -> None:
    form = posted(ada) | big
    assert form["prompt_tokens"] == "512"
    html = {
        tokens: ada.post(ESTIMATE, form | {"prompt_tokens": tokens}).content for tokens in ("512", "4096")
    }
    assert html["512"] != html["4096"]
    assert ada.post(ESTIMATE, form | {"prompt_tokens": "long"}).content == html["512"]
    assert ada.post(ESTIMATE, form | {"prompt_tokens": "9" * 30}).content == html["512"]


def test_a_model_that_may_not_be_named_is_not_estimated(ada: Client, launcher: FakeLauncher) -> None:
    form = posted(ada) | {"policies.planner.model": "<script>alert(1)</script>"}
    html = ada.post(ESTIMATE, form).content.decode()
    assert "script" not in html
    assert html == ada.post(ESTIMATE, form | {"policies.planner.model": "/etc"}).content.decode()


def test_the_api_estimates_presets_and_whole_configs(ada: Client, launcher: FakeLauncher) -> None:
    def asked(**body: object) -> dict:
        return ada.post("/api/v1/estimate/", body, content_type="application/json").json()

    found = asked(preset="plan_path_duo", overrides={"rollout.group_size": 4})
    assert found["verdict"] == {"level": "fits", "reasons": [], "change": {}}
    assert found["unused"] == []
    idle = asked(preset="plan_path_duo", overrides={"algorithm.correction_cap": 3.0})["unused"]
    assert idle == [{"path": "algorithm.correction_cap", "why": 'correction = "none" leaves it unused'}]
    assert (found["wants"], found["volume"]["tokens"]) == ({"cpus": 1.3, "gpus": 0.0}, 15360)
    assert found["policies"][0]["workers"][0]["parts"]["weights"] == 200_512 * 4
    assert found["cluster"]["nodes"][0]["memory"] == 16 * 10**9
    whole = load_config("plan_path_duo", {"rollout.group_size": 4}).model_dump(mode="json")
    assert asked(config=whole) == found
    assert asked(preset="plan_path_duo", config=whole)["errors"].keys() == {"preset"}
    assert not Run.objects.exists()
