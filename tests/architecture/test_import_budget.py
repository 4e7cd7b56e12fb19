"""What each process imports before it does anything: time to the first page, answer and point is mostly imports.

A budget counts modules, which do not depend on the machine. It leaves about a tenth of room; a process that needs more raises it here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LEARNING = ("torch", "transformers", "ray", "deepspeed", "vllm", "pandas", "matplotlib", "scipy")
"""Packages that take a second or more."""
REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"
WEB = "import webapp.site.asgi; from django.urls import get_resolver; get_resolver().url_patterns"
WORKER = "from webapp.site.celery import app; app.loader.import_default_modules()"
FORK_SERVER = "import importlib; from workers.prefork.server import MODULES\nfor m in MODULES: importlib.import_module(m)"
UP = "import webapp.stack.up as up; import webapp.stack.worker_probe as probe; probe.worker_answers('unix:///none')"

PROCESSES = {
    "the command line": ("import troupe_client.cli.app", 600, (*LEARNING, "django", "numpy")),
    "make run": (UP, 450, (*LEARNING, "numpy", "pydantic", "redis", "celery", "httpx")),
    "a program that reports": (
        "import troupe",
        300,
        (*LEARNING, "numpy", "pydantic", "asyncio", "httpx", "django"),
    ),
    "the web server": (WEB, 2750, LEARNING),
    "Celery": (WORKER, 1900, (*LEARNING, "drf_spectacular.views", "webapp.experiments.views")),
    "the driver": ("import workers.run", 430, (*LEARNING, "django", "numpy")),
    "a short job": ("import workers.job", 430, (*LEARNING, "django", "numpy")),
    "a forked worker": (
        FORK_SERVER,
        3700,
        ("ray", "deepspeed", "vllm", "django", "pandas", "peft", "sklearn"),
    ),
}
"""By process: its imports, the largest number of modules, and modules that must not be among them."""


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_imports_only_what_it_needs(process: str, tmp_path: Path) -> None:
    code, most, absent = PROCESSES[process]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        "CELERY_SKIP_CHECKS": "1",
        "TROUPE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{REPORT}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in absent if name in modules] == []
    assert len(modules) <= most
