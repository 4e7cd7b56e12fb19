"""A terminal on the machine of a test's stack, and the files that a new user writes there."""

import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tests.end_to_end.running_stack import ROOT, RunningStack

if TYPE_CHECKING:
    from tests.end_to_end.first_day import Day

CODE = "lab"
"""The package of the new user."""
LEAKING = '''"""An environment that raises."""

from lab.worlds import Harbour
from training_core.llm.environments.base import StepResult


class Leaking(Harbour):
    """No ship arrives."""

    def act(self, role: str, answer: str) -> StepResult:
        """Raises RuntimeError."""
        raise RuntimeError("the hull leaks")
'''
PICTURE = """<html><style>
  :root {{ color-scheme: light dark }}
  body {{ margin: 0; padding: 28px; background: light-dark(#ffffff, #16181d); color: light-dark(#1a1a1a, #e6e6e6) }}
  pre {{ font: 17px/1.5 monospace; white-space: pre-wrap; margin: 0 }}
  b {{ color: light-dark(#3050c8, #8fa8ff) }}
</style><pre><b>$ {command}</b>
{output}</pre></html>"""


class Terminal:
    """Runs `troupe` as a new user does."""

    def __init__(self, stack: RunningStack) -> None:
        self._stack = stack

    @property
    def folder(self) -> Path:
        """The folder of the user's code, on the path of the stack."""
        return Path(self._stack.environment["PYTHONPATH"].split(os.pathsep)[0])

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = self._stack.environment | {"COLUMNS": "100", "NO_COLOR": "1"}
        path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
        return subprocess.run(
            [sys.executable, "-m", "troupe_client.cli.app", *words],
            cwd=self.folder,
            env=environment | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def troupe(self, *words: str) -> str:
        """The output of a command that succeeds."""
        done = self._run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refused(self, *words: str) -> str:
        """The message of a command that is refused, on one line."""
        done = self._run(*words)
        assert done.returncode != 0, done.stdout
        return " ".join(done.stderr.split())

    def id_of(self, launched: str) -> str:
        """The id in the output of `launch --json`."""
        return str(json.loads(launched)["id"])

    def keep(self, day: "Day", name: str, *words: str, shown: str = "") -> None:
        """Take a picture of a command and its output; without `shown` the command runs."""
        command = words[0] if words[0].startswith("make ") else f"troupe {' '.join(words)}"
        output = shown
        if not shown:
            done = self._run(*words)
            output = done.stdout + done.stderr
        page = day.page.context.new_page()
        page.set_content(PICTURE.format(command=escape(command), output=escape(output.strip())))
        day.keep(page, name)
        page.close()


def write_environment(day: "Day") -> Path:
    """Write the environment of docs/train/custom.md and its config as the page states; returns the config's path."""
    folder = day.terminal.folder
    (folder / CODE).mkdir(exist_ok=True)
    (folder / CODE / "__init__.py").touch()
    (folder / CODE / "worlds.py").write_text((ROOT / "examples/custom/harbour.py").read_text())
    (folder / CODE / "leaking.py").write_text(LEAKING)
    text = (ROOT / "docs/train/custom.md").read_text()
    match = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match
    config = folder / "harbour.toml"
    config.write_text(match[1])
    return config
