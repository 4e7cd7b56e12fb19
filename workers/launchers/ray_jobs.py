"""Runs as Ray jobs, through the Jobs REST API.

Plain HTTP: Ray's own client takes a second and 100 MB in every process that imports it.
A cluster on this machine runs this checkout with this Python; another one gets Troupe's packages as a zip (py_modules)
and needs the dependencies installed.
"""

import hashlib
import io
import os
import re
import shlex
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from training_core.errors import Advice
from workers.launchers.launcher import (
    ROOT,
    STOP_SECONDS,
    AnyLaunch,
    Capacity,
    JobLaunch,
    JobState,
    JobStatus,
    LauncherFailure,
    LauncherStarting,
    Node,
    SeedGroupLaunch,
    driver_command,
    driver_variables,
    own_path,
)
from workers.telemetry.faults import plain, reason

PACKAGES = ("training_core", "workers")
SUFFIXES = (".py", ".toml", ".json", ".txt", ".typed")
_EPOCH = (1980, 1, 1, 0, 0, 0)
LOG_TAIL = 64_000
_LAST_LOGS = ", last available logs"
"""Text in Ray's message after which it repeats the end of the job's log, which `logs` returns."""
_USAGE = re.compile(r"^([\d.]+)/([\d.]+) (CPU|GPU)\b", re.MULTILINE)
_STATES = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
    "STOPPED": JobState.STOPPED,
}


NO_AGENT = "No available agent"
"""Part of Ray's answer in the first seconds of a cluster: the process that starts jobs is not there yet."""


class RayJobLauncher:
    """A Launcher for one cluster, by the address of its dashboard (`http://host:8265`)."""

    def __init__(
        self, address: str, token: str = "", *, remote: bool | None = None, timeout: float = 15.0
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LauncherFailure(
                f"RAY_ADDRESS={address!r} is no address of a Ray dashboard",
                remedy="use http://<head node>:8265",
            )
        self.address = address.rstrip("/")
        self.remote = not _loopback(parts.hostname) if remote is None else remote
        self._client = httpx.Client(
            base_url=self.address,
            timeout=httpx.Timeout(timeout, connect=3.0),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            trust_env=not _loopback(parts.hostname),
            verify=parts.scheme == "https",
        )

    def submit(self, launch: AnyLaunch) -> str:
        name = launch.submission_id
        if self._exists(name):
            return name
        response = self._ask("POST", "/api/jobs/", json=self._request(launch))
        if response.status_code != 200 and not self._exists(name):
            starting = response.status_code == 500 and NO_AGENT in response.text
            raise (LauncherStarting if starting else LauncherFailure)(
                _reply(response).after(f"Ray at {self.address} refused the job: ")
            )
        return name

    def status(self, submission_id: str) -> JobStatus:
        try:
            response = self._ask("GET", f"/api/jobs/{submission_id}")
        except LauncherFailure as failure:
            return JobStatus(JobState.UNKNOWN, failure.advice)
        if _is_missing(response):
            return JobStatus(JobState.MISSING, "Ray does not know this job; was the cluster restarted?")
        job = _json(response)
        state = _STATES.get(str(job.get("status")))
        if response.status_code != 200 or state is None:
            return JobStatus(JobState.UNKNOWN, f"Ray at {self.address} answered: {_reply(response)}")
        return JobStatus(state, reason(str(job.get("message") or "").partition(_LAST_LOGS)[0]))

    def stop(self, submission_id: str) -> None:
        """A job that Ray does not know counts as ended."""
        response = self._ask("POST", f"/api/jobs/{submission_id}/stop")
        if response.status_code != 200 and not _is_missing(response):
            raise LauncherFailure(_reply(response).after(f"Ray at {self.address} did not stop the job: "))

    def logs(self, submission_id: str) -> str:
        try:
            response = self._ask("GET", f"/api/jobs/{submission_id}/logs")
        except LauncherFailure:
            return ""
        return plain(str(_json(response).get("logs") or ""))[-LOG_TAIL:]

    def capacity(self) -> Capacity | None:
        """Ray updates the free devices every few seconds. In the first seconds of a cluster all count as free."""
        try:
            data = _json(self._ask("GET", "/nodes", params={"view": "summary"})).get("data") or {}
        except LauncherFailure:
            return None
        usage = data.get("nodeLogicalResources") or {}
        facts = {str((node.get("raylet") or {}).get("nodeId")): node for node in data.get("summary") or []}
        nodes = tuple(_node(name, str(text), facts.get(name) or {}) for name, text in usage.items())
        nodes = tuple(node for node in nodes or self._nodes_alive() if node.cpus or node.gpus)
        if not nodes:
            return None
        cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
        free_cpus, free_gpus = sum(node.free_cpus for node in nodes), sum(node.free_gpus for node in nodes)
        return Capacity(cpus, gpus, free_cpus, free_gpus, nodes)

    def _nodes_alive(self) -> tuple[Node, ...]:
        """Nodes from Ray's state API, which lists them 5 to 15 seconds before the autoscaler reports what is used."""
        try:
            answer = _json(self._ask("GET", "/api/v0/nodes", params={"detail": "1"}))
        except LauncherFailure:
            return ()
        rows = ((answer.get("data") or {}).get("result") or {}).get("result") or []
        return tuple(_node_alive(row) for row in rows if row.get("state") == "ALIVE")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _request(self, launch: AnyLaunch) -> dict[str, Any]:
        variables = driver_variables(launch)
        if not isinstance(launch, JobLaunch):
            variables["RAY_JOB_STOP_WAIT_TIME_S"] = str(STOP_SECONDS)  # read by Ray's supervisor of the job
        environment: dict[str, Any] = {"env_vars": variables}
        if self.remote:
            environment["py_modules"] = [self._upload_code()]
        else:
            variables["PYTHONPATH"] = own_path()
        return {
            "submission_id": launch.submission_id,
            "entrypoint": shlex.join(driver_command(launch, "python" if self.remote else sys.executable)),
            # Drivers and short jobs never wait for a core; a seed group trains in the process of its job.
            "entrypoint_num_cpus": launch.cpus if isinstance(launch, SeedGroupLaunch) else 0,
            **({"entrypoint_num_gpus": launch.gpus} if isinstance(launch, JobLaunch) and launch.gpus else {}),
            "runtime_env": environment,
            "metadata": launch.labels,
        }

    def _upload_code(self) -> str:
        """Upload Troupe's packages to the cluster's store, once per content, and return their URI."""
        package = code_package()
        path = f"/api/packages/gcs/{package.name}"
        if self._ask("GET", path).status_code != 200:
            response = self._ask("PUT", path, content=package.content)
            if response.status_code != 200:
                raise LauncherFailure(
                    _reply(response).after(f"Ray at {self.address} did not take our code: ")
                )
        return f"gcs://{package.name}"

    def _exists(self, submission_id: str) -> bool:
        response = self._ask("GET", f"/api/jobs/{submission_id}")
        if response.status_code not in (200, 404):
            raise LauncherFailure(_reply(response).after(f"Ray at {self.address} answered: "))
        return response.status_code == 200

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise LauncherFailure(
                f"Ray at {self.address} does not answer ({type(error).__name__}).",
                remedy="If it is not starting, check the cluster and RAY_ADDRESS",
            ) from error


def _is_missing(response: httpx.Response) -> bool:
    """Whether a 404 comes from Ray itself, not from a proxy."""
    return response.status_code == 404 and "does not exist" in response.text


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        data = response.json()
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _node(name: str, usage: str, facts: dict[str, Any]) -> Node:
    """A node from Ray's text such as "1.5/2.0 CPU (1.0 used of 1.5 reserved in placement groups)"."""
    amounts = {kind: (float(used), float(total)) for used, total, kind in _USAGE.findall(usage)}
    (used_cpus, cpus), (used_gpus, gpus) = amounts.get("CPU", (0.0, 0.0)), amounts.get("GPU", (0.0, 0.0))
    host = str(facts.get("hostname") or facts.get("ip") or name[:12])
    head = bool((facts.get("raylet") or {}).get("isHeadNode"))
    return Node(
        name, host, cpus, gpus, cpus - used_cpus, gpus - used_gpus, head, _memory(facts), _gpu_memory(facts)
    )


def _node_alive(row: dict[str, Any]) -> Node:
    """A node from Ray's state API, without its use and its memory."""
    total = row.get("resources_total") or {}
    cpus, gpus = float(total.get("CPU", 0.0)), float(total.get("GPU", 0.0))
    host = str(row.get("node_name") or row.get("node_ip"))
    return Node(str(row.get("node_id")), host, cpus, gpus, cpus, gpus, bool(row.get("is_head_node")))


def _memory(facts: dict[str, Any]) -> int:
    """Bytes of main memory. Ray reports [total, available, percent, used] in bytes."""
    memory = facts.get("mem")
    total = memory[0] if isinstance(memory, list) and memory else 0
    return int(total) if isinstance(total, int | float) else 0


def _gpu_memory(facts: dict[str, Any]) -> int:
    """Bytes of memory of the smallest GPU. Ray reports MiB."""
    cards = [card for card in facts.get("gpus") or [] if isinstance(card, dict)]
    sizes = [card.get("memoryTotal", card.get("memory_total")) for card in cards]
    return min((int(size) * 2**20 for size in sizes if isinstance(size, int | float)), default=0)


def _reply(response: httpx.Response) -> Advice:
    """Status and last line of the response; the last line of a traceback is its message."""
    if response.status_code in (401, 403):
        return Advice(f"{response.status_code}", "set RAY_AUTH_TOKEN to the cluster's token")
    lines = response.text.strip().splitlines()
    return Advice(f"{response.status_code} {lines[-1][:500] if lines else ''}")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class CodePackage:
    """A zip archive named after its content, so that the same code is uploaded once."""

    name: str
    content: bytes


@cache
def code_package() -> CodePackage:
    """The archive; equal bytes for equal files. The files are read once per process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in _files():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return CodePackage(f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip", content)


def _files() -> list[tuple[Path, str]]:
    """(file, name in the archive) for Troupe's packages and those that TROUPE_IMPORT_PACKAGES allows."""
    files = [
        (ROOT, path) for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES
    ]
    for name in own_packages():
        top, paths = _location(name)
        files += [(top, path) for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return sorted((path, path.relative_to(top).as_posix()) for top, path in files)


def own_packages() -> list[str]:
    """Users' own top-level packages that runs may name by import path."""
    words = os.environ.get("TROUPE_IMPORT_PACKAGES", "").split(",")
    return sorted({word.strip().partition(".")[0] for word in words if word.strip()})


def _location(name: str) -> tuple[Path, list[Path]]:
    """The folder that a package is imported from, and its files. Raises LauncherFailure if it is not installed."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise LauncherFailure(
            f"TROUPE_IMPORT_PACKAGES names {name!r}, which is not installed here",
            remedy="install it, or put its folder on PYTHONPATH",
        )
    file = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return file.parent, [file]
    return file.parent.parent, list(file.parent.rglob("*"))
