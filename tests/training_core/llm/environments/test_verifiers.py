"""environment.type = "verifiers" without the package: what a config may name, who plays, and which tasks are whose."""

import sys
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from training_core.config.files import load_config, parse_config
from training_core.config.permitted import Permitted, check_permitted
from training_core.config.run import RunConfig
from training_core.errors import ConfigError, EnvironmentFailure
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.environments.verifiers import Loaded, Verifiers, _divided, _Endless

TREE: dict[str, Any] = {
    "team": {"roles": {"agent": {"policy": "p"}}},
    "policies": {"p": {"model": "some/model"}},
    "environment": {"type": "verifiers", "path": "gsm8k"},
    "workflow": {"type": "agent"},
}


def refused(**parts: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(TREE | parts)
    return dict(caught.value.fields)


def test_it_is_played_through_the_gateway_by_the_environment_itself() -> None:
    config = parse_config(TREE)
    assert isinstance(config, RunConfig) and config.environment.player
    for workflow in ({"type": "episodes"}, {"type": "agent", "path": "lab.agents:Mine"}):
        assert "plays its tasks itself" in refused(workflow=workflow)["environment.type"]


@pytest.mark.parametrize(("path", "works"), [
    ("gsm8k", True), ("primeintellect/kuhn-poker@0.1.2", True), ("lab.games:Pennies", True), ("lab.games", True),
    ("../games", False), ("lab games", False), ("lab.games:", False), ("a/b/c", False),
])  # fmt: skip
def test_a_path_is_a_name_or_an_import_path(path: str, works: bool) -> None:
    environment = {"type": "verifiers", "path": path}
    if works:
        parse_config(TREE | {"environment": environment})
    else:
        assert "environment.path" in refused(environment=environment)


@pytest.mark.parametrize(
    ("path", "args", "packages", "field"),
    [
        ("gsm8k", {}, [], "environment.path"),
        ("gsm8k", {}, ["gsm8k"], ""),
        ("owner/kuhn-poker@1", {}, ["kuhn_poker"], ""),
        ("owner/kuhn-poker@1", {}, ["owner"], "environment.path"),
        ("lab.games:Pennies", {}, ["lab"], ""),
        ("lab.games:Pennies", {}, ["laboratory"], "environment.path"),
        ("gsm8k", {"taskset": {"id": "other"}}, ["gsm8k"], "environment.args"),
        (
            "gsm8k",
            {"taskset": {"task": {"rewards": {"r": {"fn": "os:system"}}}}},
            ["gsm8k"],
            "environment.args",
        ),
        ("gsm8k", {"taskset": {"task": {"judges": [{"id": "mine"}]}}}, ["gsm8k"], "environment.args"),
        ("gsm8k", {"agent": {"harness": {"id": "codex"}}}, ["gsm8k", "codex"], ""),
    ],
)
def test_a_server_runs_only_code_that_its_owner_allows(
    path: str, args: dict[str, Any], packages: list[str], field: str
) -> None:
    config = parse_config(TREE | {"environment": {"type": "verifiers", "path": path, "args": args}})
    if not field:
        check_permitted(config, Permitted(packages))
        return
    with pytest.raises(ConfigError) as caught:
        check_permitted(config, Permitted(packages))
    assert field in caught.value.fields and "TROUPE_IMPORT_PACKAGES" in caught.value.fields[field]


def test_a_missing_package_is_stated_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(ConfigError) as caught:
        EnvironmentHost(Verifiers(path="gsm8k"), 0)
    assert caught.value.fields == {
        "environment.path": 'the package verifiers is not installed; pip install "troupe[verifiers]"'
    }


def test_every_pass_has_every_task_once_and_held_out_ones_in_none() -> None:
    loaded = Loaded(None, True, _divided(list(range(10))))
    train = [loaded.task(0, number, "train") for number in range(14)]
    assert sorted(train[:7]) == sorted(train[7:]) == [1, 2, 3, 5, 6, 7, 9] and train[:7] != train[7:]
    assert [loaded.task(5, number, "eval") for number in range(4)] == [0, 4, 8, 0]
    assert [loaded.task(1, number, "train") for number in range(7)] != train[:7]


def test_tasks_without_an_end_are_split_and_read_as_needed() -> None:
    loaded = Loaded(None, False, _divided(count(), _Endless))
    assert [loaded.task(0, number, "train") for number in (0, 1, 2, 3, 4)] == [1, 2, 3, 5, 6]
    assert [loaded.task(0, number, "eval") for number in (2, 0, 1)] == [8, 0, 4]


def test_a_single_task_is_trained_on_and_evaluated_and_none_is_refused() -> None:
    loaded = Loaded(None, False, _divided(["only"]))
    assert [loaded.task(0, number, "train") for number in range(2)] == ["only", "only"]
    assert loaded.task(0, 3, "eval") == "only"
    with pytest.raises(ValueError, match="no tasks"):
        _divided([])


def test_an_answer_that_an_error_quotes_is_a_mistake_and_a_lost_sandbox_is_not() -> None:
    from training_core.llm.agents.verifiers import recorded

    for kind, message, outside in (
        ("TaskError", "task Sum: ValueError: 'SandboxError' is no number", False),
        ("EnvError", "OpenEnvEnv.run(): ConnectionRefusedError: [Errno 111]", True),
        ("SandboxError", "docker run failed: no space", True),
        ("HarnessError", "harness 'bash' exited 1: <no output>", False),
    ):
        assert (
            isinstance(recorded(SimpleNamespace(type=kind, message=message)), EnvironmentFailure) is outside
        )


def test_settings_of_prompts_have_no_effect() -> None:
    from training_core.config.effects import unused_settings

    tree = TREE | {"team": {"roles": {"agent": {"policy": "p", "prompt": "Be brief."}}}}
    workflow = {"type": "agent", "concurrency": 3, "patience": 3.0}
    unused = {setting.path for setting in unused_settings(parse_config(tree | {"workflow": workflow}))}
    assert unused == {"team.roles.agent.prompt", "workflow.patience"}
    assert load_config("plan_path_duo").environment.player == ""
