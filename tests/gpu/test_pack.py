"""The pack: small, and complete for an environment with only torch, transformers, pydantic and what these need."""

import ast
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.benchmarks.folders import ROOT
from tests.gpu.pack import LIMIT, packed_files, write_pack

ALLOWED = ("torch", "transformers", "pydantic")
ENTRY = "tests.gpu.one_step"
SCRIPT = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path("tests/gpu").rglob("*.py")):
    if path.stem != "__main__" and not path.stem.startswith("test_"):
        importlib.import_module(".".join(path.with_suffix("").parts))
foreign = {"ray", "vllm", "deepspeed", "django", "peft", "tomlkit", "accelerate"} & set(sys.modules)
assert not foreign, foreign
"""


def needed_distributions() -> dict[str, metadata.Distribution]:
    """The allowed packages with everything that they require here."""
    needed: dict[str, metadata.Distribution] = {}
    waiting = list(ALLOWED)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in needed:
            continue
        try:
            needed[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        for text in needed[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return needed


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to these packages alone."""
    folder = tmp_path_factory.mktemp("bare")
    for distribution in needed_distributions().values():
        for file in distribution.files or ():
            top = file.parts[0]
            source, link = Path(str(distribution.locate_file(top))), folder / top
            if top not in ("..", "__pycache__") and source.exists() and not link.exists():
                link.symlink_to(source)
    return folder


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    assert write_pack(folder / "gpu.tar.gz") < LIMIT
    with tarfile.open(folder / "gpu.tar.gz") as pack:
        pack.extraction_filter = getattr(tarfile, "data_filter", None)  # absent before Python 3.11.4
        pack.extractall(folder)
    return folder / "troupe-gpu"


def python(bare: Path, unpacked: Path, *words: str) -> None:
    """Run Python with the bare packages only, in the unpacked program."""
    command = [sys.executable, "-S", *words]
    variables = {"PYTHONPATH": f"{bare}:{unpacked}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    answer = subprocess.run(
        command, cwd=unpacked, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert answer.returncode == 0, answer.stdout[-3000:]


def test_the_bare_packages_are_few() -> None:
    names = set(needed_distributions())
    assert set(ALLOWED) <= names and not names & {
        "peft",
        "accelerate",
        "ray",
        "django",
        "tomlkit",
        "deepspeed",
    }


def test_the_pack_is_small_and_knows_its_commit(unpacked: Path) -> None:
    assert (unpacked / "COMMIT").read_text()
    assert (
        not list(unpacked.rglob("*.pyc")) and (unpacked / "training_core/llm/learning/learner.py").is_file()
    )
    presets = list((unpacked / "training_core").rglob("presets/plan_path_duo.toml"))
    assert presets


def test_its_syntax_is_that_of_python_3_11() -> None:
    for path in packed_files():
        if path.suffix == ".py":
            ast.parse(path.read_text(), feature_version=(3, 11))


@pytest.mark.extended
def test_every_module_is_imported_without_other_packages(bare: Path, unpacked: Path) -> None:
    python(bare, unpacked, "-c", SCRIPT)


@pytest.mark.extended
@pytest.mark.parametrize("step", ["lora", "marl_seeds", "learning_per_role_0"])
def test_a_step_runs_without_other_packages(bare: Path, unpacked: Path, tmp_path: Path, step: str) -> None:
    python(bare, unpacked, "-m", ENTRY, step, str(tmp_path), "--small")
    assert (tmp_path / f"{step}.json").is_file()


def test_the_packed_files_are_those_of_the_project() -> None:
    assert all(path.is_relative_to(ROOT) for path in packed_files())
