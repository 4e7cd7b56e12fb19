"""Provenance of an attempt, as its driver sees it: command, repositories, machine, packages, code and data of the config."""

import sys
from pathlib import Path
from typing import Any

from training_core.config.base import Section
from workers.provenance.collecting import command_line, installed
from workers.provenance.content import code_folders, code_of, data_of
from workers.provenance.machine_facts import machine_facts
from workers.provenance.repository import repositories

ROOT = Path(__file__).resolve().parents[2]
"""Folder that Troupe's packages are imported from."""


def attempt_provenance(config: Section, home: Path) -> dict[str, Any]:
    """Return {"command", "machine", "repositories", "installed", "code", "data"}.

    Repositories are those of the config's own packages, of the working folder and of Troupe's checkout.
    """
    states = repositories([*code_folders(config), ("", Path.cwd()), ("", ROOT)])
    return {
        "command": command_line(sys.argv),
        "machine": machine_facts(),
        "repositories": [state for state in states if "commit" in state] or states[:1],
        "installed": installed(),
        "code": code_of(config),
        "data": data_of(config, home),
    }
