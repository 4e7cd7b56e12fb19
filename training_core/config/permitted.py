"""What a config of somebody else's may name: code by import path, files of data.

A run's owner is free where runs are started by hand (`python -m workers.run`). From pages and the API only what the server's
owner has allowed: packages by name (TROUPE_IMPORT_PACKAGES), files below the server's data folder.
"""

from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from training_core.config.base import Section
from training_core.errors import ConfigError


def named(config: Section, kind: str) -> Iterator[tuple[str, str]]:
    """(dotted path of a field, its value) of every field that names code ("import_fields") or a file ("file_fields")."""
    for name, value in config:
        if isinstance(value, Section):
            yield from ((f"{name}.{path}", found) for path, found in named(value, kind))
        elif isinstance(value, dict):
            for key, part in value.items():
                if isinstance(part, Section):
                    yield from ((f"{name}.{key}.{path}", found) for path, found in named(part, kind))
        elif value and name in getattr(config, kind):
            yield name, str(value)


def check_permitted(config: Section, packages: Collection[str]) -> None:
    """Raises ConfigError, one message per field, for code outside these packages and for files outside the data folder."""
    wrong: dict[str, str] = {}
    for field, path in named(config, "import_fields"):
        module = path.partition(":")[0]
        if not any(module == package or module.startswith(f"{package}.") for package in packages):
            root = module.partition(".")[0]
            known = f"allowed are {', '.join(sorted(packages))}" if packages else "none is allowed"
            wrong[field] = (
                f"code of the package {root!r} may not be run from here ({known}); the server's owner can add it to "
                "TROUPE_IMPORT_PACKAGES"
            )
    for field, path in named(config, "file_fields"):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or path.startswith("~"):
            wrong[field] = f"{path!r} is outside the server's data folder; name a file below TROUPE_HOME/data"
    if wrong:
        raise ConfigError(wrong)
