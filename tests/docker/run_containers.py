"""Build the containers, launch a run in them, restart each of them while the run learns, and take all down again.

    make containers
    python -m tests.docker.run_containers --compose "podman-compose" --keep

Needs a container engine; --compose names the command that takes `-f FILE up`. Containers, volumes, port and secrets are its own
(project troupe-check). The exit status is 0 where the run has finished and everything that it told is there.
"""

import argparse
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.source import ROOT
from tests.docker.running import CheckFailed, Server, check_whole

FILE = ROOT / "docker" / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
CHECKED_SERVICES = [name for name, service in SERVICES.items() if "test" in service["healthcheck"]]
BUILT = ["web", "worker", "ray"]
"""One after the other: they share layers, which some engines would otherwise build at the same time."""
RESTARTED = ["postgres", "redis", "worker", "beat", "web", "ray"]
"""Ray last: its restart makes another attempt, the others cost the run nothing."""
PRESET = "plan_path_duo"
BASE_MODEL = "smollm2"
PATIENCE = 900.0
"""Seconds after which a wait is an error."""
AHEAD = 2
"""Iterations that the run must have stored after a restart before the next one."""
SAY_EVERY = 30.0
"""Seconds between two lines about the same wait."""
START = time.monotonic()


def say(text: str) -> None:
    """A line with the seconds since the start."""
    print(f"[{time.monotonic() - START:6.1f} s] {text}", flush=True)


def wait(what: str, happened: Callable[[], bool]) -> float:
    """Poll until it has happened; returns the seconds. Raises CheckFailed after PATIENCE."""
    began = said = time.monotonic()
    while not happened():
        now = time.monotonic()
        if now - began > PATIENCE:
            raise CheckFailed(f"timed out after {PATIENCE:.0f} s: {what}")
        if now - said > SAY_EVERY:
            said = now
            say(f"  waits for {now - began:.0f} s: {what}")
        time.sleep(0.5)
    return time.monotonic() - began


@dataclass
class Compose:
    """The compose file under a project of its own."""

    command: list[str]
    variables: Path

    def run(self, *words: str, quiet: bool = False) -> str:
        """Run it. Returns its stdout where `quiet`; otherwise its output goes to the terminal. Raises CheckFailed."""
        kept = subprocess.PIPE if quiet else None
        try:
            done = subprocess.run(
                [*self.command, "-f", str(FILE), "--env-file", str(self.variables), *words], cwd=ROOT,
                env=os.environ | {"COMPOSE_PROJECT_NAME": "troupe-check"}, stdout=kept, stderr=kept, text=True,
                check=False,
            )  # fmt: skip
        except OSError as error:
            raise CheckFailed(f"{self.command[0]} cannot be started: {error}") from error
        if done.returncode != 0:
            raise CheckFailed(
                f"{' '.join(words)}: exit status {done.returncode} {(done.stderr or '')[-500:]}"
            )
        return done.stdout or ""

    def healthy(self, service: str) -> bool:
        """Whether the health check of a service succeeds inside its container."""
        with suppress(CheckFailed):
            self.run("exec", "-T", service, *SERVICES[service]["healthcheck"]["test"][1:], quiet=True)
            return True
        return False

    def show(self, *words: str) -> None:
        """Run it to inform; a failure is no error."""
        with suppress(CheckFailed):
            self.run(*words)


def write_variables(path: Path) -> int:
    """Fresh secrets and a free port, as docker/README.md has them in docker/.env; the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    names = ("POSTGRES_PASSWORD", "TROUPE_SECRET_KEY", "RAY_AUTH_TOKEN")
    kept = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL") if name in os.environ}
    chosen = {name: secrets.token_hex(32) for name in names} | {"TROUPE_PORT": str(port)} | kept
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    return port


def come_up(compose: Compose, build: bool, port: int) -> Server:
    """Build the images, start everything, wait for every health check and for /readyz."""
    for service in BUILT if build else []:
        began = time.monotonic()
        say(f"builds the image of {service}")
        compose.run("build", service)
        say(f"image of {service} built in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    say("starts the containers")
    compose.run("up", "-d", "--no-build")
    server = Server(f"http://127.0.0.1:{port}")
    wait("every part of /readyz is ok", server.ready)
    say(f"every part of /readyz is ok {time.monotonic() - began:.0f} s after up")
    for service in CHECKED_SERVICES:
        wait(f"the health check of {service} succeeds", lambda name=service: compose.healthy(name))
    say(f"every health check succeeds {time.monotonic() - began:.0f} s after up")
    compose.show("ps")
    server.take_token(compose.run("exec", "-T", "web", "cat", "/data/local.json", quiet=True))
    return server


def prepare_model(server: Server) -> None:
    """The packaged base model, converted by a short job on Ray."""
    models = {f"policies.{policy}.model": BASE_MODEL for policy in ("planner", "executor")}
    job = server.post("/api/v1/jobs/", {"kind": "prepare", "preset": PRESET, "overrides": models})["id"]
    seconds = wait(
        f"the job that prepares {BASE_MODEL} ends", lambda: server.job(job)["state"] in server.OVER
    )
    found = server.job(job)
    if found["state"] != "finished":
        raise CheckFailed(f"the job that prepares {BASE_MODEL}: {found['state']}, {found['message']}")
    say(f"{BASE_MODEL} prepared by a job on Ray in {seconds:.0f} s")


def restart(compose: Compose, server: Server, run: str, service: str) -> None:
    """Restart a container and wait until its check succeeds and the run has moved on. Raises CheckFailed."""
    wait("the server tells the run's state", lambda: server.run(run)["state"] != "unknown")
    before = server.run(run)
    if before["state"] not in ("running", "starting"):
        raise CheckFailed(
            f"the run is {before['state']} before {service} was restarted; give it more --iterations"
        )
    began = time.monotonic()
    compose.run("restart", service, quiet=True)
    done = time.monotonic() - began
    wait(f"the health check of {service} succeeds", lambda: compose.healthy(service))
    well = time.monotonic() - began
    attempts = len(before["attempts"]) + (service == "ray")

    def moved_on() -> bool:
        now = server.run(run)
        started = len(now["attempts"]) == attempts and now["attempts"][-1]["started_at"]
        ahead = now["iteration"] >= before["iteration"] + AHEAD
        return bool(started and ahead) or now["state"] in server.OVER

    wait(f"the run continues after the restart of {service}", moved_on)
    seen = server.run(run)
    say(
        f"{service}: restarted in {done:.0f} s, healthy after {well:.0f} s; run: iteration {before['iteration']} -> "
        f"{seen['iteration']}, attempt {len(seen['attempts'])}, after {time.monotonic() - began:.0f} s"
    )


def learn(compose: Compose, server: Server, iterations: int) -> None:
    """A run whose containers are restarted one after the other. Raises CheckFailed where it is not whole at the end."""
    began = time.monotonic()
    overrides = {"run.iterations": iterations, "checkpoint.every": 10}
    run = server.post("/api/v1/runs/", {"preset": PRESET, "overrides": overrides})["id"]
    say(f"{PRESET} launched as {run}, {iterations} iterations")
    seconds = wait("the first iterations", lambda: server.run(run)["iteration"] >= AHEAD)
    say(f"iteration {AHEAD} stored after {seconds:.0f} s")
    for service in RESTARTED:
        restart(compose, server, run, service)
    wait("the run ends", lambda: server.run(run)["state"] in server.OVER)
    ended = server.run(run)
    if ended["state"] != "finished":
        raise CheckFailed(f"the run is {ended['state']}: {ended['reason']}")
    say(f"the run finished {time.monotonic() - began:.0f} s after its launch")
    wait("every part of /readyz is ok", server.ready)
    for line in check_whole(server, run, iterations):
        say(line)


def refuse(reason: str) -> int:
    """Exit status where nothing was started."""
    say(f"FAILED: {reason}")
    return 1


def main(arguments: list[str]) -> int:
    """Exit status."""
    parser = argparse.ArgumentParser("tests.docker.run_containers")
    parser.add_argument("--compose", default="docker compose", help='command, such as "podman compose"')
    parser.add_argument("--iterations", type=int, default=150, help="long enough for all restarts")
    parser.add_argument("--no-build", action="store_true", help="take the images that there are")
    parser.add_argument("--keep", action="store_true", help="leave everything up at the end")
    parser.add_argument("--optional", action="store_true", help="succeed where no container engine answers")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="troupe-containers-") as folder:
        compose = Compose(shlex.split(options.compose), Path(folder) / "env")
        port = write_variables(compose.variables)
        try:
            existing = compose.run("ps", "-q", quiet=True).strip()
        except CheckFailed as error:
            if options.optional:
                say(f"skipped: {options.compose} does not work here: {error}")
                return 0
            return refuse(f"{options.compose} does not work here: {error}")
        if existing:
            return refuse("containers of docker/compose.yaml exist already; take them down first")
        try:
            server = come_up(compose, not options.no_build, port)
            prepare_model(server)
            learn(compose, server, options.iterations)
        except (CheckFailed, KeyboardInterrupt) as error:
            compose.show("logs", "--tail=40")
            say(f"FAILED: {error or 'interrupted'}")
            return 1
        finally:
            if not options.keep:
                say("removes the containers and their volumes")
                compose.show("down", "-v")
    say("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
