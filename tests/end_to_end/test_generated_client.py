"""A client that a public generator makes from the OpenAPI document launches, watches, reads, forks and stops a run by its types alone."""

import importlib
import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.docs.fences import fences
from tests.end_to_end.running_stack import RunningStack
from tests.workers.running import SMALL_NETWORKS

pytestmark = [pytest.mark.stack, pytest.mark.extended, pytest.mark.timeout(1800)]
GENERATOR = "openapi-python-client==0.29.1"
"""In an environment of its own: it needs an older typer than Troupe."""
NAME = "generated_troupe"


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the generator's commands, from the package index of this machine."""
    folder = tmp_path_factory.mktemp("generator")
    venv.create(folder, with_pip=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", GENERATOR]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no package index has {GENERATOR}: {done.stderr.strip()[-300:]}")
    return folder / "bin"


class GeneratedClient:
    """The generated package, with a connection to the stack."""

    def __init__(self, stack: RunningStack) -> None:
        self.models = importlib.import_module(f"{NAME}.models")
        self.connection = importlib.import_module(f"{NAME}.client").AuthenticatedClient(
            base_url=stack.url,
            token=stack.token,
            raise_on_unexpected_status=True,
            httpx_args={"trust_env": False},
            timeout=httpx.Timeout(60),
        )

    def call(self, operation: str, *path: Any, **arguments: Any) -> Any:
        """The parsed answer of an operation; fails for a documented error."""
        module: ModuleType = importlib.import_module(f"{NAME}.api.v1.v1_{operation}")
        answer = module.sync(*path, client=self.connection, **arguments)
        assert not isinstance(answer, self.models.Error), answer
        return answer


@pytest.fixture
def client(
    shared_stack: RunningStack, generator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GeneratedClient]:
    headers = {"Authorization": f"Bearer {shared_stack.token}"}
    address = f"{shared_stack.url}/api/schema/?format=json"
    answer = httpx.get(address, headers=headers, timeout=60, trust_env=False).raise_for_status()
    (tmp_path / "openapi.json").write_text(answer.text)
    (config,) = (
        fence.text for fence in fences("docs/reference/api.md") if "content_type_overrides" in fence.text
    )
    (tmp_path / "generator.yaml").write_text(config)
    done = subprocess.run(
        [
            generator / "openapi-python-client",
            "generate",
            "--path",
            "openapi.json",
            "--config",
            "generator.yaml",
        ]
        + ["--output-path", NAME, "--meta", "none"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{generator}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["Generating", NAME], ""), done.stdout
    monkeypatch.syspath_prepend(tmp_path)
    generated = GeneratedClient(shared_stack)
    with generated.connection:
        yield generated


def test_a_generated_client_drives_a_run(client: GeneratedClient, shared_stack: RunningStack) -> None:
    models, call = client.models, client.call
    overrides = models.LaunchBodyOverrides.from_dict(SMALL_NETWORKS)
    run = call(
        "runs_create", body=models.LaunchBody(preset="spread_toy", overrides=overrides, tags=["typed"])
    )
    shared_stack.until(lambda: call("runs_retrieve", run.id).state in ("finished", "failed"), within=900)
    run = call("runs_retrieve", run.id)
    assert (run.state, run.iteration, run.tags, run.reason) == ("finished", 4, ["typed"], ""), run.reason
    assert run.ended_at > run.started_at, "times are datetimes"
    assert [row.id for row in call("runs_list", tag="typed").results] == [run.id]

    keys = [metric.key for metric in call("runs_series_retrieve", run.id).keys]
    assert {"train/return", "eval/return"} <= set(keys)
    points = call("runs_series_retrieve", run.id, keys="train/return,eval/return").series["train/return"]
    assert points.steps == [1, 2, 3, 4] and all(isinstance(value, float) for value in points.values)

    (episode, *_) = call("runs_episodes_list", run.id, limit=5).results
    transcript = call("episodes_retrieve", episode.id)
    assert (transcript.name, len(transcript.turns)) == (episode.name, episode.turn_count)
    turn = transcript.turns[0]
    assert turn.role == "agents" and turn.candidates[turn.executed].text.startswith("agent_0: ")

    picture = call("team_picture_create", body=models.TeamBody(preset="spread_toy"))
    assert picture.payload.read().startswith(b"<svg")

    fork_overrides = models.ForkBodyOverrides.from_dict({"run.iterations": 100_000})
    fork = call(
        "runs_checkpoints_fork_create", run.id, "last", body=models.ForkBody(overrides=fork_overrides)
    )
    assert fork.parent == run.id
    shared_stack.until(lambda: call("runs_retrieve", fork.id).iteration > 4, within=600)
    assert [child.id for child in call("runs_lineage_retrieve", run.id).forks] == [fork.id]
    call("runs_stop_create", fork.id)
    shared_stack.until(lambda: call("runs_retrieve", fork.id).state == "stopped", within=600)
