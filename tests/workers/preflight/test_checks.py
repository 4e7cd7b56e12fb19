"""Checks before a launch, against faults that are caused for real: each is stated, and hides no later one."""

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.training_core.llm.rewards.judge_server import JudgeServer, by, serving
from tests.workers.running import small_config, small_networks
from tests.workers.wrong_environments import OWN, WRONG_ENVIRONMENTS, tree_with
from training_core.config.files import load_config, parse_config, parse_overrides, preset_names, to_toml
from training_core.sandbox import run as sandbox
from workers.job import main as do_job
from workers.preflight import networks
from workers.preflight.checks import (
    Check,
    ClusterDevices,
    Surroundings,
    Unchecked,
    checks_of,
    failed,
    make_checks,
    nodes_see,
)
from workers.run import main as do_run
from workers.sizing.estimates import NodeMemory
from workers.storage.folders import FolderNotShared, JobFolder

REWARDS = "tests.training_core.llm.rewards.reward_functions"
GIB = 2**30
ROOM = ClusterDevices(0.0, (NodeMemory(64 * GIB, 0),))


def checked(config: Any, home: Path, cluster: ClusterDevices | None = ROOM) -> dict[str, Check]:
    return {check.name: check for check in checks_of(config, Surroundings(home, cluster=cluster))}


def states(checks: dict[str, Check]) -> set[str]:
    return {check.state for check in checks.values()}


def test_a_failure_hides_no_later_check() -> None:
    def fails() -> str:
        raise OSError(28, "No space left on device")

    def unknown() -> str:
        raise Unchecked("it is made later")

    done: list[float] = []
    results = make_checks(
        [("a", fails), ("b", unknown), ("c", lambda: "well")], lambda share, text: done.append(share)
    )
    assert [(check.name, check.state) for check in results] == [
        ("a", "failed"),
        ("b", "unknown"),
        ("c", "passed"),
    ]
    assert results[0].remedy.startswith("Free space on this disk") and results[2].text == "Well."
    assert done == pytest.approx([0, 1 / 3, 2 / 3])
    assert failed(results) and not failed(results[1:])


def test_a_sound_config_passes_every_check(little_model: Path, tmp_path: Path) -> None:
    found = checked(small_config(little_model), tmp_path)
    assert states(found) == {"passed"}, found
    assert list(found) == [
        "GPUs", "memory", "algorithm", "environment", "one played step",
        "tokenizer and chat template of little", "context of little", "weights of little",
    ]  # fmt: skip
    assert "parameters were loaded" in found["weights of little"].text
    assert found["tokenizer and chat template of little"].text.startswith("The first prompt has ")


def test_several_nodes_must_see_the_data_folder(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    two = ClusterDevices(0.0, ROOM.nodes * 2)
    found = checked(small_config(little_model), tmp_path, two)
    assert found.pop("data folder of all nodes").state == "unknown", "this process is in no cluster"
    assert states(found) == {"passed"}


@pytest.mark.ray
@pytest.mark.extended
def test_a_node_that_does_not_see_the_data_folder_fails_the_check(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the processes of the node, the path of this process's descriptor leads elsewhere."""
    monkeypatch.setenv("RAY_ADDRESS", "this one")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert "see" in nodes_see(tmp_path)
        with pytest.raises(
            FolderNotShared, match=f"does not see the driver's folder /proc/self/fd/{descriptor}"
        ):
            nodes_see(Path(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)


def test_a_context_too_short_for_an_answer_is_a_warning(little_model: Path, tmp_path: Path) -> None:
    config = small_config(little_model, team__roles__executor__sampling__max_tokens=250)
    found = checked(config, tmp_path)
    check = found.pop("context of little")
    assert check.state == "warning" and "executor" in check.text and "256" in check.text
    assert "team.roles.executor.sampling.max_tokens" in check.remedy
    assert states(found) == {"passed"} and not failed([check])


def test_a_missing_model_folder(tmp_path: Path) -> None:
    found = checked(small_config(tmp_path / "nope"), tmp_path)
    tokenizer = found["tokenizer and chat template of nope"]
    assert tokenizer.text == f"There is no model folder '{tmp_path}/nope' on the machine of the workers."
    assert tokenizer.remedy.startswith("Set policies.*.model to a folder")
    assert found["weights of nope"].state == found["memory"].state == "unknown"
    assert found["one played step"].state == "passed"


def test_a_model_without_chat_template_or_weights(little_model: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(little_model, base)
    (base / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((base / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    (base / "model.safetensors").unlink()
    found = checked(small_config(base), tmp_path)
    tokenizer = found["tokenizer and chat template of base"]
    assert "has no chat template" in tokenizer.text and tokenizer.remedy.startswith(
        "Use an instruction-tuned model"
    )
    assert found["weights of base"].state == "failed"


def test_an_unreachable_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = checked(small_config(Path("nobody/no-model")), tmp_path)
    tokenizer = found["tokenizer and chat template of no-model"]
    assert tokenizer.state == "failed" and "the hub cannot be reached" in tokenizer.text
    assert tokenizer.remedy.startswith("Connect the machine of the workers to huggingface.co")
    assert found["weights of no-model"].state == "unknown"


def test_a_model_that_is_made_later_is_not_made(tmp_path: Path) -> None:
    found = checked(load_config("plan_path_duo"), tmp_path)
    assert found["weights of tiny"].state == "unknown"
    assert found["weights of tiny"].text == "The model 'tiny' is made when the run starts."
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(("path", "args", "cause", "remedy"), WRONG_ENVIRONMENTS)
def test_an_environment_of_the_user(
    little_model: Path, tmp_path: Path, path: str, args: dict[str, Any], cause: str, remedy: str
) -> None:
    tree = tree_with(path, args, little_model, agent={"path": f"{OWN}:nobody"})
    found = checked(parse_config(tree), tmp_path)
    environment = found["environment"]
    assert cause in environment.text and environment.state == "failed"
    assert environment.remedy.startswith(remedy)
    assert found["agent of speaker"].state == "failed"
    assert found["weights of little"].state == "passed"


def test_a_reward_function_that_raises(tmp_path: Path, little_model: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": f"goal {n} east", "label": "x"}) for n in range(20)))
    reward = {"type": "custom", "path": f"{REWARDS}:raises", "retries": 0}
    overrides = {
        "environment.type": "dataset",
        "environment.path": str(file),
        "environment.reward": reward,
        "environment.eval_share": 0.4,
        "team.roles": {"solver": {"policy": "planner"}},
        "policies": {"planner": {"model": str(little_model)}},
    }
    found = checked(load_config("plan_path_duo", overrides), tmp_path)
    assert found["reward function"].state == "passed", "it is imported"
    assert f"reward function {REWARDS}:raises: " in found["one played step"].text
    missing = overrides | {"environment.reward": reward | {"path": f"{REWARDS}:nobody"}}
    assert checked(load_config("plan_path_duo", missing), tmp_path)["reward function"].state == "failed"
    with serving(JudgeServer(by(lambda text: 5), replies=[500])) as server:
        judge = {"type": "judge", "url": server.url, "model": "m", "retries": 0}
        found = checked(load_config("plan_path_duo", overrides | {"environment.reward": judge}), tmp_path)
        assert "reward function" not in found and "does not answer" in found["one played step"].text
        compared = overrides | {"environment.reward": judge | {"rule": f"{REWARDS}:nobody"}}
        assert checked(load_config("plan_path_duo", compared), tmp_path)["reward function"].state == "failed"


def test_an_absent_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_model: Path) -> None:
    for cached in (sandbox.check_sandbox, sandbox._run, sandbox._sandbox):
        cached.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    overrides = {f"policies.{policy}.model": str(little_model) for policy in ("tester", "coder")}
    found = checked(load_config("coding", overrides), tmp_path)
    assert found["sandbox"].text == "No sandbox is available for agents' code."
    assert found["sandbox"].remedy.startswith("Install bubblewrap and libseccomp")
    assert found["one played step"].state == "unknown"


def test_an_algorithm_and_a_port(little_model: Path, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        workflow = {"type": "agent", "port": holder.getsockname()[1]}
        algorithm = {"type": "custom", "path": "nowhere:Steps"}
        found = checked(small_config(little_model, workflow=workflow, algorithm=algorithm), tmp_path)
    assert found["port of the gateway"].remedy == "Choose another port, or 0 for a free one."
    assert "there is no module 'nowhere'" in found["algorithm"].text


@pytest.mark.parametrize(
    ("cluster", "state", "text"),
    [
        (ClusterDevices(0.0), "failed", "1 GPU is requested, but the cluster has no CUDA device."),
        (ClusterDevices(1.0), "failed", "needs 2 GPUs in total and the cluster has 1."),
        (ClusterDevices(4.0), "passed", "2 of 4 GPUs are requested."),
        (None, "unknown", "The cluster does not answer"),
    ],
)
def test_gpus_are_compared_with_the_clusters(
    little_model: Path, tmp_path: Path, cluster: ClusterDevices | None, state: str, text: str
) -> None:
    gpus = {f"policies__{name}__devices__rollout_gpus": 1.0 for name in ("planner", "executor")}
    found = checked(small_config(little_model, **gpus), tmp_path, cluster)["GPUs"]
    assert (found.state, text in found.text) == (state, True), found


def test_memory_is_compared_with_the_nodes(little_model: Path, tmp_path: Path) -> None:
    small = ClusterDevices(0.0, (NodeMemory(10_000_000, 0),))
    memory = checked(small_config(little_model), tmp_path, small)["memory"]
    assert memory.state == "failed" and "of main memory" in memory.text
    assert checked(small_config(little_model), tmp_path, None)["memory"].state == "unknown"


def test_the_remedy_of_too_little_memory_fits_when_applied(little_model: Path, tmp_path: Path) -> None:
    card = ClusterDevices(2.0, (NodeMemory(64 * GIB, 2**22),))
    gpus = {f"policies__{name}__devices__rollout_gpus": 1.0 for name in ("planner", "executor")}
    assert checked(small_config(little_model, **gpus), tmp_path, card)["memory"].state == "passed"  # auto
    gpus |= {f"policies__{name}__learner__micro_batch_tokens": 4096 for name in ("planner", "executor")}
    memory = checked(small_config(little_model, **gpus), tmp_path, card)["memory"]
    assert memory.state == "failed" and memory.remedy.startswith("The memory suffices with "), memory
    words = memory.remedy.removeprefix("The memory suffices with ").removesuffix(".").split()
    change = {path.replace(".", "__"): value for path, value in parse_overrides(words).items()}
    assert checked(small_config(little_model, **gpus | change), tmp_path, card)["memory"].state == "passed"


@pytest.mark.parametrize("preset", ["spread_mappo", "recall_ippo_gru", "tag_mappo", "reference_mappo"])
def test_networks_pass_every_check(preset: str, tmp_path: Path) -> None:
    assert preset in preset_names()
    found = checked(small_networks(preset), tmp_path)
    assert states(found) == {"passed"}, found
    assert list(found) == ["GPUs", "algorithm", "environment", "one played step", "networks"]


PICTURES = {"type": "pettingzoo", "path": "tests.training_core.marl.networks.test_cnn:Corners"}


@pytest.mark.parametrize(
    ("environment", "remedy"), [({"type": "mpe_simple_spread"}, "custom"), (PICTURES, "cnn")]
)
def test_a_large_first_layer_is_a_warning(
    environment: dict[str, str], remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_networks("spread_mappo", environment=environment)
    monkeypatch.setattr(networks, "LARGE", 100)
    check = checked(config, tmp_path)["networks"]
    assert check.state == "warning" and "first layer" in check.text
    assert check.remedy.endswith(f'set policies.agents.network.type = "{remedy}".')


def test_networks_of_the_user_that_cannot_be_loaded(tmp_path: Path) -> None:
    overrides = {
        "policies.agents.network": {"type": "custom", "path": "nowhere:Net"},
        "algorithm": {"type": "custom_ppo", "path": "nowhere:Learner"},
        "resources.gpus": 1.0,
    }
    found = checked(load_config("spread_mappo", overrides), tmp_path)
    assert {name for name, check in found.items() if check.state == "failed"} == {
        "GPUs",
        "algorithm",
        "networks",
    }
    assert found["GPUs"].text.startswith("Resources.gpus: 1 GPU") or "resources.gpus" in found["GPUs"].text
    assert found["one played step"].state == "passed"


def test_the_job_reports_the_checks(little_model: Path, tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "j")
    config = small_config(little_model, policies__planner__devices__rollout_gpus=1.0)
    parameters = {"cluster": {"gpus": 0.0, "nodes": [{"main": 64 * GIB, "gpu": 0}]}}
    job.open(to_toml(config), {"kind": "check", "parameters": parameters, "checkpoint": "", "other": ""})
    assert do_job([str(tmp_path / "j"), "--home", str(tmp_path)]) == 0
    result = job.read("result") or {}
    assert result["failed"] is True
    assert [check["name"] for check in result["checks"] if check["state"] == "failed"] == ["GPUs"]
    assert "rollout_gpus" in result["checks"][0]["text"]


@pytest.mark.parametrize(("options", "failing"), [([], []), (["--local"], ["evaluator"])])
def test_a_run_in_one_process_has_no_evaluator(
    options: list[str], failing: list[str], tmp_path: Path
) -> None:
    job = JobFolder(tmp_path / "j")
    config = small_networks("spread_mappo", evaluation__mode="beside")
    parameters = {"cluster": {"gpus": 0.0, "nodes": [{"main": 64 * GIB, "gpu": 0}]}}
    job.open(to_toml(config), {"kind": "check", "parameters": parameters, "checkpoint": "", "other": ""})
    assert do_job([str(tmp_path / "j"), "--home", str(tmp_path), *options]) == 0
    checks = (job.read("result") or {})["checks"]
    assert [check["name"] for check in checks if check["state"] == "failed"] == failing


def test_a_check_in_this_process(
    little_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text(to_toml(small_config(little_model)))
    assert do_run([str(file), "--check", "--home", str(tmp_path)]) == 0
    assert "passed  environment" in capsys.readouterr().out
    words = [str(file), "--check", "--json", "--home", str(tmp_path), "policies.planner.model=/models/nope"]
    assert do_run(words) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["failed"] and {check["state"] for check in told["checks"]} == {"passed", "failed", "unknown"}
    assert not (tmp_path / "runs").exists(), "nothing was run"
