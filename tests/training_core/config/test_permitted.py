"""What a server lets configs name: code of allowed packages, files of its data folder."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from training_core.config.base import Section
from training_core.config.files import load_config, parse_config, preset_names
from training_core.config.marl import MarlConfig
from training_core.config.permitted import Permitted, check_permitted, named, runs_named
from training_core.config.rollout import Agent
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from training_core.importing import IMPORT_PATH
from training_core.llm.environments.verifiers import Verifiers

REWARD = {"environment.type": "dataset", "environment.path": "x.jsonl", "environment.reward.type": "custom"}
SINGLE = {"team": {"roles": {"solver": {"policy": "p"}}}, "policies": {"p": {}}}
EVERYWHERE = {
    **SINGLE,
    "team": {"roles": {"solver": {"policy": "p", "agent": {"path": "mine.agents:ask"}}}},
    "environment": {"type": "custom", "path": "mine.worlds:World"},
    "workflow": {"type": "custom", "path": "mine.play:play"},
    "algorithm": {"type": "custom", "path": "mine.learning:Steps"},
}


def test_code_is_found_wherever_a_config_names_it() -> None:
    assert dict(named(parse_config(EVERYWHERE), "import_fields")) == {
        "team.roles.solver.agent.path": "mine.agents:ask",
        "environment.path": "mine.worlds:World",
        "workflow.path": "mine.play:play",
        "algorithm.path": "mine.learning:Steps",
    }
    assert not dict(named(load_config("plan_path_duo"), "import_fields"))
    network = {"type": "custom", "path": "mine.nets:Net"}
    environment = {"type": "custom_marl", "path": "mine.worlds:Harbour"}
    small = load_config("spread_toy", {"environment": environment, "policies.agents.network": network})
    assert {path for path, _ in named(small, "import_fields")} == {
        "environment.path",
        "policies.agents.network.path",
    }


@pytest.mark.parametrize("preset", preset_names())
def test_presets_name_only_code_that_everyone_may_run(preset: str) -> None:
    check_permitted(load_config(preset), Permitted())


def test_every_package_must_be_allowed_by_its_owner() -> None:
    config = parse_config(EVERYWHERE)
    with pytest.raises(ConfigError) as caught:
        check_permitted(config, Permitted())
    assert set(caught.value.fields) == {
        "team.roles.solver.agent.path",
        "environment.path",
        "workflow.path",
        "algorithm.path",
    }
    assert "the server's owner can add it to TROUPE_IMPORT_PACKAGES" in caught.value.fields["workflow.path"]
    for packages in (["min"], ["mine.worlds", "mine.play"], ["minetoo"], ["mine.play:play"]):
        with pytest.raises(ConfigError):
            check_permitted(config, Permitted(packages))
    check_permitted(config, Permitted(["other", "mine"]))
    check_permitted(config, Permitted(["mine.worlds", "mine.play", "mine.agents", "mine.learning"]))


@pytest.mark.parametrize("path", ["/etc/passwd", "../secrets.jsonl", "a/../../b", "~/x.jsonl"])
def test_data_lies_in_the_servers_data_folder(path: str) -> None:
    config = parse_config({**SINGLE, "environment": {"type": "dataset", "path": path}})
    with pytest.raises(ConfigError, match="outside the server's data folder"):
        check_permitted(config, Permitted())
    check_permitted(
        parse_config({**SINGLE, "environment": {"type": "dataset", "path": "a/b.jsonl"}}), Permitted()
    )


def sections(model: type[BaseModel]) -> set[type[Section]]:
    """Every section that a config may be made of."""
    found: set[type[Section]] = set()
    waiting: list[Any] = [model]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Section):
            if kind not in found:
                found.add(kind)
                waiting += [field.annotation for field in kind.model_fields.values()]
        else:
            waiting += [each for each in get_args(kind) if each is not kind]
    return found


def test_no_field_takes_an_import_path_without_being_guarded() -> None:
    seen = []
    for section in sections(RunConfig):
        for name, field in section.model_fields.items():
            patterns = [getattr(each, "pattern", None) for each in field.metadata]
            if any(pattern and ":" in str(pattern).replace("://", "") for pattern in patterns):
                seen.append((section.__name__, name))
                assert name in section.import_fields, (section.__name__, name)
    assert len(seen) >= 5 and IMPORT_PATH


OPEN = {**SINGLE, "environment": {"type": "arithmetic"}}
HOME = "/srv/troupe"
OWNER = Permitted(home=HOME, model_folders=("/data", "/models/shared/"), weights_folders=("/scratch",))
POLICY = f"{HOME}/runs/abcdefgh/checkpoints/iteration-000010/planner"


def with_model(model: str) -> Section:
    return parse_config({**OPEN, "policies": {"p": {"model": model}}})


@pytest.mark.parametrize(
    "model",
    ["tiny", "Qwen/Qwen3-0.6B", "gpt2", "mine.v2", "models/mine", f"{HOME}/models/mine", "/data/qwen/7b", "/models/shared/x",
     POLICY, POLICY.removeprefix(f"{HOME}/")],
)  # fmt: skip
def test_models_that_a_server_reads(model: str) -> None:
    check_permitted(with_model(model), OWNER)


@pytest.mark.parametrize(
    "model",
    ["/etc", "/", "/data", "/data/../etc", "/database/x", "/models/sharedx", "~/x", "~root/x", "../x", "./x/y", "x/..",
     "a/b/c", "..", ".", ".hidden", "var/runs/abcdefgh/checkpoints/iteration-000010/planner", HOME, f"{HOME}/runs/abcdefgh",
     f"{HOME}/models", f"{HOME}/models/../runs/x", POLICY.rpartition("/")[0], f"{POLICY}/..", f"{POLICY}/x", "a b/c", "a/b\n",
     "file:///etc", "https://x/y", "runs/../checkpoints/iteration-000010/planner", "ünicode/model"],
)  # fmt: skip
def test_models_that_a_server_does_not_read(model: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_permitted(with_model(model), OWNER)
    [(field, said)] = refused.value.fields.items()
    assert field == "policies.p.model"
    assert "a model of TROUPE_HOME/models by its name" in said and "TROUPE_MODEL_FOLDERS" in said
    assert HOME not in said, "the message does not tell where the data folder is"


def test_an_engines_model_and_folder_are_checked_too() -> None:
    engine = {"type": "openai", "model": "/etc", "weights_folder": "/data/base"}
    section = {"engine": engine, "devices": {"placement": "apart"}}
    with pytest.raises(ConfigError) as refused:
        check_permitted(parse_config({**OPEN, "policies": {"p": section}}), OWNER)
    assert set(refused.value.fields) == {"policies.p.engine.model", "policies.p.engine.weights_folder"}
    assert "TROUPE_WEIGHTS_FOLDERS" in refused.value.fields["policies.p.engine.weights_folder"]
    for folder in ("/scratch/w", f"{HOME}/weights/run"):
        good = {**section, "engine": {**engine, "model": "served-name", "weights_folder": folder}}
        check_permitted(parse_config({**OPEN, "policies": {"p": good}}), OWNER)


@pytest.mark.parametrize(
    ("path", "fits"),
    [("runs/abcdefgh/checkpoints/iteration-000010", True), (f"{HOME}/runs/abcdefgh/checkpoints/iteration-000010", True),
     ("runs/abcdefgh/checkpoints/iteration-000010/agents", False), ("var/runs/abcdefgh/checkpoints/iteration-000010", False),
     ("/data/x", False), ("other", False), ("runs/abcdefgh/../x/checkpoints/iteration-000010", False)],
)  # fmt: skip
def test_checkpoints_of_runs_alone_are_resumed_from(path: str, fits: bool) -> None:
    config = load_config("spread_toy", {"checkpoint.resume_from": path})
    if fits:
        check_permitted(config, OWNER)
        assert {field: run for field, (run, _) in runs_named(config, HOME).items()} == {
            "checkpoint.resume_from": "abcdefgh"
        }
        return
    with pytest.raises(
        ConfigError,
        match=r"checkpoint\.resume_from: this may not be named from here; name a checkpoint of a run",
    ):
        check_permitted(config, OWNER)


def test_runs_are_found_wherever_a_config_names_them() -> None:
    config = parse_config({**OPEN, "policies": {"p": {"model": POLICY}, "q": {"model": "/data/qwen"}}})
    assert {field: run for field, (run, _) in runs_named(config, HOME).items()} == {
        "policies.p.model": "abcdefgh"
    }


GUARDED = ("model", "path", "file", "folder", "resume_from", "problems")
FREE = {"environment_path", "eval_path", "loss_mask_path", "input_file", "evaluation_file"}
"""Guarded by their own sections' fields, or looked up below the data folder of the rollout buffer's own service."""


def test_no_text_field_that_names_a_place_is_unguarded() -> None:
    seen = 0
    for kind in (RunConfig, MarlConfig):
        for section in sections(kind):
            guards = (
                *section.import_fields, *section.file_fields, *section.model_name_fields, *section.checkpoint_fields,
                *section.folder_fields,
            )  # fmt: skip
            for name, field in section.model_fields.items():
                if field.annotation is str and any(word in name for word in GUARDED) and name not in FREE:
                    seen += 1
                    assert name in guards, (section.__name__, name)
    assert seen >= 12


def test_a_model_folder_around_the_data_folder_opens_nothing_of_it() -> None:
    """As in the containers, whose TROUPE_HOME is /data."""
    owner = Permitted(home="/data", model_folders=("/data", "/"), weights_folders=("/data",))
    run = "/data/runs/abcdefgh/checkpoints/iteration-000010/planner"
    for model in ("/data/models/x", run):
        check_permitted(with_model(model), owner)
    assert runs_named(with_model(run), "/data")["policies.p.model"][0] == "abcdefgh"
    for model in (
        "/data/runs/abcdefgh",
        "/data/work/x",
        "/data",
        "/data/./runs/x/y",
        "/data/postgres",
        "/data/runs/a/b/c",
    ):
        with pytest.raises(ConfigError):
            check_permitted(with_model(model), owner)


JUDGE = {"type": "judge", "model": "m", "key_variable": "LAB_API_KEY"}


@pytest.mark.parametrize(
    ("url", "good"),
    [("http://127.0.0.1:8000", True), ("http://localhost:8889", True), ("https://lab.example:8443", True),
     ("https://lab.example", False), ("http://lab.example:8443", False), ("https://lab.example.evil:8443", False),
     ("http://127.0.0.1@evil.example", False), ("http://[127.0.0.1", False), ("http://127.0.0.1:x@127.0.0.1:8000", False)],
)  # fmt: skip
def test_keys_of_the_servers_environment_go_to_named_addresses_only(url: str, good: bool) -> None:
    owner = replace(OWNER, key_addresses=("https://lab.example:8443",))
    engine = {"type": "openai", "urls": ["http://127.0.0.1:8000", url], "key_variable": "WANDB_API_KEY"}
    section = {"engine": engine, "devices": {"placement": "apart"}}
    configs = {
        "policies.p.engine.urls": {**OPEN, "policies": {"p": section}},
        "workflow.url": {**OPEN, "workflow": {"type": "rollout_buffer", "url": url}},
        "environment.reward.url": {
            **OPEN,
            "environment": {"type": "dataset", "path": "x", "reward": JUDGE | {"url": url}},
        },
    }
    for field, tree in configs.items():
        if good:
            check_permitted(parse_config(tree), owner)
            continue
        with pytest.raises(ConfigError) as refused:
            check_permitted(parse_config(tree), owner)
        assert "TROUPE_KEY_ADDRESSES" in refused.value.fields[field]
    if not good and "@" not in url and "[" not in url:
        keyless = {**engine, "key_variable": ""}
        check_permitted(parse_config({**OPEN, "policies": {"p": {**section, "engine": keyless}}}), owner)


@pytest.mark.parametrize(
    ("url", "good"),
    [("http://127.0.0.1:8000", True), ("https://lab.example", True), ("https://[2606:4700::1]/v1", True), ("http://8.8.8.8", True),
     ("http://10.1.0.5:9200", True), ("http://vllm:8000", True), ("http://169.254.169.254/latest", False), ("http://10.0.0.5:9200", False),
     ("http://[fd00::1]", False), ("http://[::ffff:10.0.0.5]", False), ("http://2852039166/", False), ("http://0xa9.254.43518", False),
     ("http://database", False), ("http://metadata.google.internal", False), ("http://x:y@lab.example", False)],
)  # fmt: skip
def test_runs_reach_no_private_network_that_is_not_named(url: str, good: bool) -> None:
    owner = replace(OWNER, key_addresses=("http://vllm:8000",), networks=("10.1.0.0/16",))
    engine = {"type": "openai", "urls": [url]}
    judge = {"type": "judge", "model": "m", "url": url}
    agent = {"type": "agent", "path": "lab.agents:Tools", "args": {"url": url}}
    configs = {
        "policies.p.engine.urls": {"policies": {"p": {"engine": engine, "devices": {"placement": "apart"}}}},
        "environment.reward.url": {"environment": {"type": "dataset", "path": "x", "reward": judge}},
        "workflow.args.url": {"environment": {"type": "dataset", "path": "x"}, "workflow": agent},
    }
    for field, tree in configs.items():
        config = parse_config({**OPEN, **tree})
        if good:
            check_permitted(config, replace(owner, packages=["lab"]))
            continue
        with pytest.raises(ConfigError) as refused:
            check_permitted(config, replace(owner, packages=["lab"]))
        assert "TROUPE_RUN_NETWORKS" in refused.value.fields[field]


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        ({"num_train_examples": 200, "split": "train", "system_prompt": "Answer a/b: x."}, ""),
        ({"taskset": {"id": "lab.tasks", "split": "eval"}, "agent": {"max_turns": 8}}, ""),
        ({"taskset": {"id": "elsewhere"}}, "args"),
        ({"taskset": {"env": "evil/space"}}, "args.taskset.env"),
        ({"taskset": {"repo": "evil/space"}}, "args.taskset.repo"),
        ({"agent": {"runtime": {"image": "evil"}}}, "args.agent.runtime.image"),
        ({"use_docker": True}, "args.use_docker"),
        ({"options": [{"provider_kwargs": {"a": 1}}]}, "args.options.0.provider_kwargs.a"),
        ({"rival": {"model": "m", "client": {"base_url": "http://127.0.0.1:1", "api_key_var": "A_KEY"}}}, ""),
        (
            {"rival": {"client": {"base_url": "https://evil.example", "api_key_var": "A_KEY"}}},
            "args.rival.client.base_url",
        ),
        ({"rival": {"client": {"base_url": "https://evil.example"}}}, "args.rival.client.base_url"),
        ({"judge": {"api_key_var": "A_KEY"}}, "args.judge.api_key_var"),
        ({"judge": {"api_key_var": "A_KEY", "base_url": ""}}, "args.judge.api_key_var"),
        ({"host": "10.0.0.5"}, "args.host"),
        ({"start_command": "http://127.0.0.1/"}, "args.start_command"),
    ],
)
def test_arguments_of_verifiers_name_no_programs_and_send_no_keys(args: dict[str, Any], wrong: str) -> None:
    section = Verifiers(path="lab", args=args)
    owner = replace(OWNER, packages=["lab"])
    if not wrong:
        check_permitted(section, owner)
        return
    with pytest.raises(ConfigError) as refused:
        check_permitted(section, owner)
    assert set(refused.value.fields) == {wrong}


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        ({"greeting": "a/b: anything", "calls": 3}, ""),
        ({"command": ["python", "-m", "lab.tools", "fast"], "tools": ["add"]}, ""),
        ({"command": ["python", "-m", "elsewhere.tools"]}, "args.command"),
        ({"command": ["sh"]}, "args.command.0"),
        ({"command": ["python", "-m", "lab.tools"], "folders": ["/srv"]}, "args.folders.0"),
        ({"command": ["python", "-m", "lab.tools"], "more": {"command": ["sh"]}}, "args.more.command.0"),
        ({"url": "http://169.254.169.254/mcp"}, "args.url"),
    ],
)
def test_arguments_of_agents_name_no_programs(args: dict[str, Any], wrong: str) -> None:
    section = Agent(path="lab.agents:Tools", args=args)
    owner = replace(OWNER, packages=["lab"])
    if not wrong:
        check_permitted(section, owner)
        return
    with pytest.raises(ConfigError) as refused:
        check_permitted(section, owner)
    assert set(refused.value.fields) == {wrong}
