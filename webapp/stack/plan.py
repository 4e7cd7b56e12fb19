"""The plan of services to start, from the user's settings: configured addresses replace the bundled servers."""

import itertools
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from webapp.config import environment as env
from webapp.stack.home import PREPARED, Home, StackError
from webapp.stack.postgres import clean_environment, database_url, prepare_postgres
from webapp.stack.servers import RayHead, listen_near, new_ray_head, redis_answers, redis_command, redis_url
from webapp.stack.supervisor import Service, SetupStep
from webapp.stack.worker_probe import forget_alive, worker_answers
from workers.launchers.bundled_ray import VARIABLE as BUNDLED_RAY
from workers.launchers.bundled_ray import note_start
from workers.launchers.probe import http_answers

DEMO_PRESET = "plan_path_duo"
PREPARE, MODEL, DEMO = "prepare", "base-model", "demo"
CORE = ("web", "worker")
"""What `up` waits for before it prints the login link. Everything that the first page does not need starts later."""
RAY_START = "ray-start"
"""File in TROUPE_HOME that names the current start of the bundled Ray."""
SCRATCH_LIMIT = 40
"""Longest path of the scratch folder that leaves enough room for Ray's socket paths."""


@dataclass
class Plan:
    """All decisions of `up` before it starts the first child."""

    home: Home
    scratch: Path
    listener: socket.socket
    host: str
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    """Variables added to the environment of our own Python children."""
    ray: RayHead | None = None
    bundled_postgres: bool = False
    bundled_redis: bool = False
    runs_wait: bool = False
    """Whether runs were interrupted: Ray then starts with the other services, and not after the first page."""

    @property
    def public_url(self) -> str:
        """The address for people."""
        return env.public_url(self.url)

    @property
    def port(self) -> int:
        """The web server's port."""
        return int(self.listener.getsockname()[1])

    def child_environment(self) -> dict[str, str]:
        """Return the environment of Django children."""
        return os.environ | self.environment

    def redis(self) -> list[Service]:
        """Return the bundled Redis, if it is used."""
        if not self.bundled_redis:
            return []
        path = self.scratch / "redis.sock"
        environment = clean_environment(self.scratch)
        return [Service("redis", redis_command(path), environment, lambda: redis_answers(path))]

    def ray_head(self) -> list[Service]:
        """Return the bundled Ray head, if it is used. It starts after the first page, which it would delay by 2 to 3 seconds,
        unless runs wait for it.

        Its start is recorded here, before the worker's: a run that is submitted in the meantime belongs to this start.
        """
        if not (head := self.ray):
            return []
        file, starts = self.home.root / RAY_START, itertools.count()
        note_start(file)

        def before() -> None:
            if next(starts):
                note_start(file)

        return [
            Service(
                "ray",
                head.command(),
                head.environment(),
                head.answers,
                grace=4.0,  # enough: all durable state is in run folders and in the database
                unanswered_limit=120.0,
                owns_tree=True,
                folder=env.ROOT,
                before=before,
                after=() if self.runs_wait else CORE,
            )
        ]

    def postgres(self) -> Service:
        """Return the bundled database; creates its data folder if missing (half a second).

        Its recovery after a crash may take long and is not interrupted.
        """
        server = prepare_postgres(self.home.root, self.scratch / "pg")
        self.environment["TROUPE_PG_BINARIES"] = str(server.binaries)
        return Service(
            "postgres",
            server.command(),
            clean_environment(server.data.parent),
            server.answers,
            account=server.account,
            stop_signal=signal.SIGINT,  # "fast": ends sessions, writes a checkpoint
            grace=30.0,
            unanswered_limit=600.0,
            folder=server.data.parent,
        )

    def django_services(self) -> list[Service]:
        """Return the services that need migrated tables."""
        return [
            self._web(),
            self._celery(
                "worker",
                ["worker", *WORKER],
                lambda: worker_answers(self.environment["REDIS_URL"]),
                before=lambda: forget_alive(self.environment["REDIS_URL"]),
            ),
            self._celery(
                "beat",
                ["beat", *BEAT, "--schedule", str(self.home.root / "beat.db")],
                lambda: True,
                after=CORE,
            ),
        ]

    def prepare(self) -> SetupStep:
        """Migrations, static files, owner, token, login link."""
        return SetupStep(PREPARE, django("stack_prepare"), self.child_environment())

    def mark_prepared(self) -> None:
        """Let the processes continue that wait for `prepare`."""
        self.home.prepared.touch()

    def base_model(self) -> SetupStep:
        """Return the step that creates the demonstration's base model, with low priority."""
        command = [sys.executable, "-m", "workers.base_model", DEMO_PRESET, str(self.home.root)]
        return SetupStep(MODEL, command, self.child_environment(), after=CORE, niceness=5)

    def demo(self) -> SetupStep:
        """The demonstration run, once per home."""
        return SetupStep(DEMO, django("stack_demo", DEMO_PRESET), self.child_environment(), after=CORE)

    def _web(self) -> Service:
        descriptor = self.listener.fileno()
        return Service(
            "web",
            [sys.executable, "-m", "webapp.stack.serve", str(descriptor)],
            self.child_environment(),
            lambda: http_answers(f"http://{self._loopback()}:{self.port}/healthz"),
            waits_for=(PREPARE,),
            sockets=(descriptor,),
            folder=env.ROOT,
        )

    def _celery(
        self,
        name: str,
        words: list[str],
        answers: Callable[[], bool],
        before: Callable[[], None] | None = None,
        after: tuple[str, ...] = (),
    ) -> Service:
        return Service(
            name,
            [sys.executable, "-m", "celery", "-A", "webapp.site.celery", *words],
            self.child_environment(),
            answers,
            after=after,
            waits_for=(PREPARE,),
            grace=8.0,
            folder=env.ROOT,
            before=before,
        )

    def _loopback(self) -> str:
        """Return the address for local connections to a server that may listen on all interfaces."""
        return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            self.host, f"[{self.host}]" if ":" in self.host else self.host
        )


WORKER = [
    "--pool=prefork",  # a hanging task can be killed with its process, not with a thread
    "--concurrency=4",
    "--prefetch-multiplier=1",
    "--without-gossip",
    "--without-mingle",
]
WORKER += ["--loglevel=INFO"]
BEAT = ["--loglevel=WARNING", "--pidfile="]


def make_plan(home: Home, *, runs_wait: bool = False) -> Plan:
    """Read the environment, bind the port, choose addresses. `runs_wait`: an earlier start was killed. Raises StackError."""
    host = env.text("TROUPE_HOST", "127.0.0.1")
    listener = listen_near(host, env.number("TROUPE_PORT", 8000))
    port = listener.getsockname()[1]
    plan = Plan(home, make_scratch(), listener, host, "", runs_wait=runs_wait)
    plan.url = env.text("TROUPE_SERVER_URL") or f"http://{plan._loopback()}:{port}"
    plan.environment = {
        PREPARED: str(home.prepared),
        "CELERY_SKIP_CHECKS": "1",  # system checks import every view; a test runs them
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        "TROUPE_HOME": str(home.root),
        "TROUPE_SERVER_URL": plan.url,
        "TROUPE_SECRET_KEY": env.text("TROUPE_SECRET_KEY") or home.secret("secret_key"),
        "TROUPE_ALLOWED_HOSTS": allowed_hosts(host),
        "OMP_NUM_THREADS": env.text("OMP_NUM_THREADS", "1"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(env.ROOT), os.environ.get("PYTHONPATH", "")])),
    }
    _choose_servers(plan)
    return plan


def _choose_servers(plan: Plan) -> None:
    plan.bundled_postgres = not env.text("DATABASE_URL")
    plan.bundled_redis = not env.text("REDIS_URL")
    if plan.bundled_postgres:
        (plan.scratch / "pg").mkdir(mode=0o700)
        plan.environment["DATABASE_URL"] = database_url(plan.scratch / "pg")
    if plan.bundled_redis:
        plan.environment["REDIS_URL"] = redis_url(plan.scratch / "redis.sock")
    else:
        plan.environment["REDIS_URL"] = env.text("REDIS_URL")
    if not env.text("RAY_ADDRESS") and env.text("TROUPE_LAUNCHER", "ray") == "ray":
        plan.ray = new_ray_head(plan.scratch / "ray")
        plan.environment |= {"RAY_ADDRESS": plan.ray.address, **plan.ray.access()}
        plan.environment[BUNDLED_RAY] = str(plan.home.root / RAY_START)


def allowed_hosts(host: str) -> str:
    """Return the configured host and those used by our own probes and jobs."""
    wanted = [name for name in env.text("TROUPE_ALLOWED_HOSTS").split(",") if name]
    own = ["127.0.0.1", "localhost", "[::1]"] + (
        [f"[{host}]" if ":" in host else host] if host not in ("0.0.0.0", "::") else []
    )
    return ",".join(dict.fromkeys([*wanted, *own]))


def make_scratch() -> Path:
    """Create a private folder with a path short enough for sockets in it. Raises StackError."""
    for base in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]):
        if len(base) + len("/troupe-12345678") > SCRATCH_LIMIT or not os.access(base, os.W_OK | os.X_OK):
            continue
        scratch = Path(tempfile.mkdtemp(prefix="troupe-", dir=base))
        if os.geteuid() == 0:
            scratch.chmod(0o711)  # the database account traverses it to reach its sockets
        return scratch
    raise StackError("No temporary folder with a short path is writable; set TMPDIR to one")


def django(*words: str) -> list[str]:
    """Return the command line of a management command, with or without manage.py."""
    return [sys.executable, "-m", "django", *words]
