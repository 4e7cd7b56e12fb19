"""Ray jobs: one per submission id, distinct final states, never failed because Ray does not answer; the code that a remote cluster gets."""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from webapp.stack.servers import free_ports
from workers.launchers.launcher import (
    STOP_SECONDS,
    Capacity,
    JobState,
    Launch,
    LauncherFailure,
    Node,
    SeedGroupLaunch,
)
from workers.launchers.ray_jobs import RayJobLauncher, code_package

from .conftest import RayHead, until


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    code_package.cache_clear()


def names() -> list[str]:
    return zipfile.ZipFile(io.BytesIO(code_package().content)).namelist()


def test_allowed_packages_are_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(name.split("/")[0] in ("training_core", "workers") for name in names())
    (tmp_path / "lab" / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "rewards.py", "words.csv", "__pycache__/rewards.pyc"):
        (tmp_path / "lab" / name).write_text("x = 1")
    (tmp_path / "alone.py").write_text("x = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TROUPE_IMPORT_PACKAGES", "lab.rewards, alone")
    code_package.cache_clear()
    own = [name for name in names() if name.split("/")[0] not in ("training_core", "workers")]
    assert sorted(own) == ["alone.py", "lab/__init__.py", "lab/rewards.py", "lab/words.csv"]


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_IMPORT_PACKAGES", "no_such_package")
    with pytest.raises(LauncherFailure, match="'no_such_package', which is not installed here"):
        code_package()


Make = Callable[[str], Launch]


@pytest.fixture
def make_at() -> Iterator[Callable[..., RayJobLauncher]]:
    made: list[RayJobLauncher] = []

    def make(*words: Any, **options: Any) -> RayJobLauncher:
        made.append(RayJobLauncher(*words, timeout=120.0, **options))  # the machine may be busy
        return made[-1]

    yield make
    for launcher in made:
        launcher.close()


@pytest.fixture
def launcher(ray_head: RayHead, make_at: Callable[..., RayJobLauncher]) -> RayJobLauncher:
    return make_at(ray_head.address, ray_head.token)


@pytest.mark.ray
@pytest.mark.usefixtures("driver")
class TestOnRay:
    def test_a_job_from_start_to_end(self, launcher: RayJobLauncher, launch: Make) -> None:
        task = launch("end")
        name = launcher.submit(task)
        assert name == f"troupe-{task.run}-1"
        until(lambda: launcher.status(name).state is JobState.SUCCEEDED)
        said = (task.folder / "said").read_text().split("\n")
        assert said[0].endswith(
            f"--folder {task.folder} --run {task.run} --attempt 1 --home {task.home} "
            f"--ingest-url http://127.0.0.1:1/events/ --resume-from {task.home / 'ck'}"
        )
        assert said[1] == "1"
        assert "hello from the driver" in launcher.logs(name)

    def test_submitting_twice_runs_once(
        self, launcher: RayJobLauncher, launch: Make, ray_head: RayHead
    ) -> None:
        task = launch("run")
        name = launcher.submit(task)
        until((task.folder / "ready").exists)
        assert launcher.submit(task) == name
        request = launcher._request(task)
        refused = httpx.post(
            f"{ray_head.address}/api/jobs/",
            json=request,
            headers={"Authorization": f"Bearer {ray_head.token}"},
            timeout=120,
        )
        assert refused.status_code == 500  # what the look beforehand saves us from
        launcher.stop(name)
        until(lambda: launcher.status(name).state is JobState.STOPPED)
        launcher.stop(name)
        assert launcher.submit(task) == name
        assert launcher.status(name).state is JobState.STOPPED

    def test_a_failure_reports_its_exit_code(self, launcher: RayJobLauncher, launch: Make) -> None:
        name = launcher.submit(launch("fail"))
        until(lambda: launcher.status(name).state is JobState.FAILED)
        assert "code 7" in launcher.status(name).message

    def test_unknown_job_is_missing(self, launcher: RayJobLauncher) -> None:
        assert launcher.status("troupe-none-1").state is JobState.MISSING
        assert launcher.logs("troupe-none-1") == ""
        launcher.stop("troupe-none-1")

    def test_a_wrong_token_is_reported_as_unknown(
        self, ray_head: RayHead, launch: Make, make_at: Any
    ) -> None:
        other = make_at(ray_head.address, "0" * 32)
        status = other.status("troupe-x-1")
        assert status.state is JobState.UNKNOWN
        assert "RAY_AUTH_TOKEN" in status.message
        with pytest.raises(LauncherFailure, match="RAY_AUTH_TOKEN"):
            other.submit(launch("end"))

    def test_capacity(self, launcher: RayJobLauncher) -> None:
        def memory() -> int:
            found = launcher.capacity()
            return found.nodes[0].memory if found else 0

        until(lambda: memory() > 0)  # reported by the node's agent, shortly after the head has started
        assert memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

        def devices() -> tuple[float, ...]:
            found = launcher.capacity()
            return (found.cpus, found.gpus, found.free_cpus, found.free_gpus) if found else ()

        until(
            lambda: devices() == (2.0, 0.0, 2.0, 0.0)
        )  # resources of earlier jobs are reported as free some seconds late
        assert [(node.cpus, node.gpus, node.head) for node in launcher._nodes_alive()] == [(2.0, 0.0, True)]

    def test_a_remote_cluster_gets_the_code_package(
        self, ray_head: RayHead, launch: Make, make_at: Any
    ) -> None:
        launcher = make_at(ray_head.address, ray_head.token, remote=True)
        task = launch("end")
        name = launcher.submit(task)
        until(lambda: launcher.status(name).state is JobState.SUCCEEDED)
        path = (task.folder / "said").read_text().split("\n")[3]
        package = Path(path.split(":")[0])
        assert package.name.startswith("_ray_pkg_")
        assert (package / "workers" / "telemetry" / "events.py").exists()
        assert launcher._upload_code() == f"gcs://{code_package().name}"


def test_an_unreachable_ray_is_unknown(launch: Make) -> None:
    launcher = RayJobLauncher(f"http://127.0.0.1:{free_ports(1)[0]}")
    assert launcher.status("troupe-x-1").state is JobState.UNKNOWN
    assert launcher.capacity() is None
    assert launcher.logs("troupe-x-1") == ""
    with pytest.raises(LauncherFailure, match="does not answer"):
        launcher.submit(launch("end"))
    with pytest.raises(LauncherFailure, match="does not answer"):
        launcher.stop("troupe-x-1")


def answering(status: int, text: str) -> RayJobLauncher:
    launcher = RayJobLauncher("http://127.0.0.1:1")
    launcher._client = httpx.Client(
        base_url="http://x", transport=httpx.MockTransport(lambda _: httpx.Response(status, text=text))
    )
    return launcher


@pytest.mark.parametrize(
    ("status", "text"), [(404, "nginx"), (502, "bad gateway"), (200, "<html>"), (200, "[]")]
)
def test_a_proxys_404_is_not_rays(status: int, text: str) -> None:
    assert answering(status, text).status("troupe-x-1").state is JobState.UNKNOWN


def test_placement_groups_count_as_used() -> None:
    usage = "1.5/2.0 CPU (1.0 used of 1.5 reserved in placement groups)\n0B/1GiB memory\n0.0/1.0 GPU"
    answer: dict[str, Any] = {"data": {"nodeLogicalResources": {"a": usage, "b": "0.0/4.0 CPU"}}}
    capacity = answering(200, httpx.Response(200, json=answer).text).capacity()
    assert capacity is not None
    assert (capacity.cpus, capacity.free_cpus, capacity.gpus, capacity.free_gpus) == (6.0, 4.5, 1.0, 1.0)


def test_nodes_report_their_memory() -> None:
    facts = {
        "raylet": {"nodeId": "a"},
        "mem": [64 * 10**9, 1, 2.0, 3],
        "gpus": [{"memoryTotal": 81920}, {"memoryTotal": 40960}],
    }
    usage = {"a": "0.0/4.0 CPU\n0.0/2.0 GPU", "b": "0.0/4.0 CPU"}
    answer: dict[str, Any] = {"data": {"nodeLogicalResources": usage, "summary": [facts]}}
    capacity = answering(200, httpx.Response(200, json=answer).text).capacity()
    assert capacity is not None
    assert [(node.memory, node.gpu_memory) for node in capacity.nodes] == [(64 * 10**9, 40 * 2**30), (0, 0)]


def test_nodes_count_before_the_autoscaler_reports_their_use() -> None:
    """As in the first seconds of a cluster; a run that was launched with the stack waited up to 15 seconds for that report."""
    rows = [
        {
            "node_id": "a",
            "node_name": "n1",
            "is_head_node": True,
            "state": "ALIVE",
            "resources_total": {"CPU": 2.0},
        },
        {
            "node_id": "b",
            "node_ip": "10.0.0.2",
            "state": "ALIVE",
            "resources_total": {"CPU": 4.0, "GPU": 1.0},
        },
        {"node_id": "c", "node_ip": "10.0.0.3", "state": "DEAD", "resources_total": {"CPU": 8.0}},
    ]
    answer = httpx.Response(200, json={"data": {"result": {"result": rows}, "nodeLogicalResources": {}}}).text
    assert answering(200, answer).capacity() == Capacity(
        6.0,
        1.0,
        6.0,
        1.0,
        (Node("a", "n1", 2.0, 0.0, 2.0, 0.0, True), Node("b", "10.0.0.2", 4.0, 1.0, 4.0, 1.0)),
    )
    assert answering(200, '{"data": {"summary": []}}').capacity() is None


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "ray://127.0.0.1:10001", "auto", "http://"])
def test_an_invalid_dashboard_address_is_refused(address: str) -> None:
    with pytest.raises(LauncherFailure, match="8265"):
        RayJobLauncher(address)


def test_a_seed_group_holds_its_devices_in_its_job(tmp_path: Path) -> None:
    members = tuple(Launch(run, 1, tmp_path / run, tmp_path, f"http://s/{run}/") for run in "ab")
    request = RayJobLauncher("http://127.0.0.1:8265")._request(SeedGroupLaunch(members, "troupe-a-1", 1.5))
    assert (request["submission_id"], request["entrypoint_num_cpus"]) == ("troupe-a-1", 1.5)
    assert request["metadata"] == {"runs": "a b"}
    variables = request["runtime_env"]["env_vars"]
    assert variables["RAY_JOB_STOP_WAIT_TIME_S"] == str(STOP_SECONDS), "enough for checkpoints of all of them"
    expected = (
        f"--member a 1 {tmp_path}/a http://s/a/ --member b 1 {tmp_path}/b http://s/b/ --home {tmp_path}"
    )
    assert request["entrypoint"].endswith(expected)


def test_only_this_machine_sees_the_checkout() -> None:
    assert not RayJobLauncher("http://127.0.0.1:8265").remote
    assert not RayJobLauncher("http://localhost:8265").remote
    assert RayJobLauncher("http://10.0.0.5:8265").remote
    assert RayJobLauncher("https://ray.example.org").remote


def test_the_archive_has_our_code_and_nothing_else() -> None:
    with zipfile.ZipFile(BytesIO(code_package().content)) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"training_core", "workers"}
    assert "training_core/llm/environments/presets/plan_path_duo.toml" in names
    code_package.cache_clear()
    again = code_package()
    code_package.cache_clear()
    assert code_package() == again
