"""Folders of data sets below TROUPE_HOME/data: those of a server's projects are apart, in data/projects/PROJECT.

Data outside of them were put there on the server's machine, and belong to the project of the server's owner.
"""

import re
from pathlib import Path, PurePosixPath

from training_core.errors import DataError
from training_core.llm.environments.dataset import DATA

PROJECTS = "projects"
UPLOADS = "uploads"
"""Folder of a project for files from browsers."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}")
"""Names of imported data and of uploads."""
_PROJECT = re.compile(r"[\w-]{1,60}")


def data_folder(home: Path) -> Path:
    """The folder below which environments find their files."""
    return home / DATA


def data_path(name: str, project: str = "") -> str:
    """The path of a data set as configs name it. `project`: slug of a server's project. Raises DataError for another name."""
    if not NAME.fullmatch(name) or name.casefold() in (PROJECTS, UPLOADS):
        raise DataError(
            f"{name!r} is not a name:", remedy="use letters, digits, dots, hyphens and underscores"
        )
    return f"{project_path(project)}/{name}" if project else name


def project_path(project: str) -> str:
    """The path of a project's data. Raises DataError for text that is no slug."""
    if not _PROJECT.fullmatch(project):
        raise DataError(f"{project!r} is no project:", remedy="give the slug that its address has")
    return f"{PROJECTS}/{project}"


def project_of(path: str) -> str | None:
    """The slug of the project whose data a path names; empty if it names no project, None if it is outside of projects' data."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0].casefold() != PROJECTS:  # some file systems ignore case
        return None
    return parts[1] if len(parts) > 1 else ""
