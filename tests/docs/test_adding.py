"""The examples of examples/, added to a copy of the code as their READMEs say, from their files to a run that trains."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules
from tests.architecture.test_layers import upward_imports
from tests.workers.running import little_model

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("[a-z]*/README.md"))
SMALL = {
    "larger_number": ("rollout.tasks=8", "evaluation.episodes=8"),
    "plan_path_duo": (
        *("rollout.tasks=4", "rollout.group_size=4", "evaluation.every=0"),
        *("environment.size=4", "environment.max_turns=2", "environment.moves_per_turn=2"),
    ),
}
"""By preset, what makes one iteration short."""
ROW = re.compile(r"^\| (?:the class of )?`([\w.]+)` \| `([\w./]+)` \|$", re.MULTILINE)
LINES = re.compile(r"`([\w/]+)/registry\.py`.*?```python\n(.+?)\n```.*?```python\n(.+?\n)```", re.DOTALL)
COMMAND = re.compile(r"`python -m workers\.run --preset (\w+) --local ?([^`]*)`")


def add(name: str, root: Path) -> tuple[Path, list[Path]]:
    """Write a copy of the package with the example; return its test and its other files of code."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "training_core", root / "training_core", ignore=ignored)
    readme = (ROOT / "examples" / name / "README.md").read_text()
    places = {file: root / to / file if to.endswith("/") else root / to for file, to in ROW.findall(readme)}
    assert places.keys() == {path.name for path in (ROOT / "examples" / name).iterdir()} - {
        "README.md",
        "__pycache__",
    }
    for file, place in places.items():
        text = (ROOT / "examples" / name / file).read_text()
        for other, there in places.items():
            module = there.relative_to(root).with_suffix("").as_posix().replace("/", ".")
            text = text.replace(f"examples.{name}.{other.removesuffix('.py')}", module)
        if place.exists():
            text = place.read_text() + "\n\n" + text[text.index("class ") :]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    [(folder, imported, line)] = LINES.findall(readme)
    registry = root / folder / "registry.py"
    text = registry.read_text().replace("\nfrom training_core", f"\n{imported}\nfrom training_core", 1)
    registry.write_text(re.sub(r"(: dict\[str, \w+\] = {\n)", lambda match: match[0] + line, text, count=1))
    code = [path for path in (*places.values(), registry) if path.suffix == ".py"]
    return next(path for path in code if path.name.startswith("test_")), code


def training(name: str) -> tuple[str, list[str]]:
    """The preset and the overrides of the README's command, and those that make it short."""
    [(preset, words)] = COMMAND.findall((ROOT / "examples" / name / "README.md").read_text())
    return preset, ["run.iterations=1", *SMALL.get(preset, ()), *shlex.split(words)]


def python(root: Path, *words: str) -> str:
    """The output of Python that imports the copy."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return little_model(tmp_path_factory.mktemp("models") / "little")


@pytest.mark.extended
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_added_example_passes_its_test_and_trains(name: str, model: Path, tmp_path: Path) -> None:
    """In one process, which imports torch once."""
    test, _ = add(name, tmp_path)
    testing = ["-q", "-c", os.devnull, "-p", "no:django", "--import-mode=importlib", str(test)]
    preset, overrides = training(name)
    if preset == "plan_path_duo":
        overrides += [f"policies.{policy}.model={model}" for policy in ("planner", "executor")]
    home = tmp_path / "home"
    words = ["--preset", preset, "--local", *overrides, "--home", str(home)]
    code = (
        f"import sys, pytest; from workers.run import main; sys.exit(pytest.main({testing}) or main({words}))"
    )
    output = python(tmp_path, "-c", code)
    assert " passed" in output and "finished after 1 iterations" in output
    if name == "csv_logger":
        (file,) = home.glob("runs/*/metrics.csv")
        assert "train/return" in file.read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_added_example_keeps_style_order_and_effect_rules(name: str, tmp_path: Path) -> None:
    """After `ruff` has sorted the imports, as in `make format`; the example's settings have an effect."""
    _, code = add(name, tmp_path)
    assert upward_imports("training_core", modules(tmp_path)) == set()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    first_party = 'lint.isort.known-first-party = ["tests", "training_core"]'
    paths = [str(path) for path in code]
    python(tmp_path, "-m", "ruff", "check", "--config", first_party, "--select", "I", "--fix", *paths)
    python(tmp_path, "-m", "ruff", "check", "--config", first_party, *paths)
    python(tmp_path, "-m", "ruff", "format", "--check", *paths)
    preset, overrides = training(name)
    check = f"""
from training_core.config import files
from training_core.config.effects import unused_settings
assert files.__file__.startswith({str(tmp_path)!r})
overrides = files.parse_overrides({overrides!r})
unused = [setting.path for setting in unused_settings(files.load_config({preset!r}, overrides))]
assert not set(unused) & set(overrides), unused
"""
    python(tmp_path, "-c", check)
