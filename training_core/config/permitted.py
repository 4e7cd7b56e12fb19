"""Restrict what a config from another user may name: code by import path, data files, models, checkpoints, folders to
write to, keys.

Runs started by hand (`python -m workers.run`) are not restricted. Pages and the API accept only what the server's
owner has allowed: packages by name (TROUPE_IMPORT_PACKAGES), files and models below the server's data folder, models
below TROUPE_MODEL_FOLDERS, folders for published weights below TROUPE_WEIGHTS_FOLDERS, addresses for keys of the
server's environment in TROUPE_KEY_ADDRESSES, networks that are not public in TROUPE_RUN_NETWORKS. Nothing here reads the
disk or resolves a name, so a refusal does not reveal which folders or hosts exist.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from training_core.config.base import Section, sections
from training_core.config.networks import OWN_MACHINE, host_allowed
from training_core.errors import Advice, ConfigError

HUB_ID = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
"""A model of the Hugging Face hub: organisation/name."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
"""A model in TROUPE_HOME/models, or one of the hub's first models, such as gpt2."""
_CHECKPOINT = re.compile(
    r"runs/(?P<run>[A-Za-z0-9_][\w-]*)/checkpoints/iteration-\d{6,12}(?P<policy>/[\w-]+)?", re.ASCII
)


ARTIFACT = re.compile(r"artifact:[A-Za-z0-9_][\w.-]*(:[A-Za-z0-9_][\w.-]*)?", re.ASCII)
"""A model that a server replaces at launch by the checkpoint of an artifact: artifact:NAME:v3, artifact:NAME:ALIAS."""
_CHECKPOINTS = "a checkpoint of a run that you may see: runs/RUN/checkpoints/iteration-000100"
_MODELS = (
    '"tiny", a hub id such as Qwen/Qwen3-0.6B, a model of TROUPE_HOME/models by its name, a folder below '
    "TROUPE_MODEL_FOLDERS, an artifact (artifact:NAME:ALIAS), or a policy of a checkpoint of a run that you may see: "
    "runs/RUN/checkpoints/iteration-000100/POLICY"
)
_FOLDERS = (
    "an absolute folder below TROUPE_HOME/weights, or below a folder that the server's owner has added to "
    "TROUPE_WEIGHTS_FOLDERS"
)
PLACES = {"model_name_fields": _MODELS, "checkpoint_fields": _CHECKPOINTS, "folder_fields": _FOLDERS}
"""Kinds of fields that name a path, and what they may name."""

SHIPPED = frozenset(
    {
        "training_core.llm.agents.calculator:CalculatorAgent",
        "training_core.llm.rewards.math:MathReward",
        "pettingzoo.classic.tictactoe.tictactoe:env",
        "pettingzoo.classic.connect_four.connect_four:env",
        "pettingzoo.classic.rlcard_envs.leduc_holdem:env",
        "pettingzoo.classic.rlcard_envs.texas_holdem:env",
    }
)
"""Import paths of Troupe's own code and presets, which everyone may name."""


@dataclass(frozen=True)
class Permitted:
    """What the server's owner allows."""

    packages: Collection[str] = ()
    """Packages whose code configs may name."""
    home: str = ""
    """TROUPE_HOME, absolute."""
    model_folders: Sequence[str] = ()
    """Absolute folders with models, in addition to TROUPE_HOME/models."""
    weights_folders: Sequence[str] = ()
    """Absolute folders below which weights for engines may be written, in addition to TROUPE_HOME/weights."""
    key_addresses: Sequence[str] = ()
    """Addresses, in addition to this machine's, that keys may be sent to: scheme, host and port, such as https://host:8443."""
    networks: Collection[str] = ()
    """Networks, in addition to public ones and this machine, that runs may reach: CIDR notation, or "any"."""


def named(config: Section, kind: str) -> Iterator[tuple[str, str]]:
    """(dotted path of a field, its value) of every field of a kind: one of the `..._fields` of training_core.config.base.Section."""
    for path, section in sections(config):
        for name in getattr(section, kind):
            if value := getattr(section, name):
                yield f"{path}.{name}".lstrip("."), str(value)


def check_permitted(config: Section, permitted: Permitted) -> None:
    """Raises ConfigError, one message per field, for values that are not permitted.

    Does not check whether the user may see the runs whose checkpoints are named: see `runs_named`.
    """
    wrong = {
        **_code(config, permitted.packages),
        **_files(config),
        **_models(config, permitted),
        **_checkpoints(config, permitted),
        **_folders(config, permitted),
        **_addresses(config, permitted),
        **_programs(config),
    }
    if wrong:
        raise ConfigError(wrong)


def runs_named(config: Section, home: str) -> Mapping[str, tuple[str, str]]:
    """By field: the run (id) whose checkpoint it names, and what it may name instead."""
    return {
        path: (match["run"], allowed)
        for kind, allowed in PLACES.items()
        for path, value in named(config, kind)
        if (match := _checkpoint_named(value, home))
    }


def refusal(allowed: str) -> str:
    """The message for a value that is not allowed; it is the same whether the path exists or not."""
    return Advice("this may not be named from here", f"name {allowed}")


def checkpoint_below_home(value: str) -> bool:
    """Whether a relative path is a checkpoint, or a policy of one, below TROUPE_HOME."""
    return _CHECKPOINT.fullmatch(value) is not None


def _code(config: Section, packages: Collection[str]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    modules = [
        (f"{path}.{field}".lstrip("."), f"{module}:")
        for path, section in sections(config)
        for field, module in section.modules()
    ]
    for field, path in [*named(config, "import_fields"), *modules]:
        module, colon, _ = path.partition(":")
        named_package = any(module == package or module.startswith(f"{package}.") for package in packages)
        if colon and not named_package and path not in SHIPPED:
            root = module.partition(".")[0]
            known = f"allowed are {', '.join(sorted(packages))}" if packages else "none is allowed"
            wrong[field] = Advice(
                f"code of the package {root!r} may not be run from here ({known})",
                "the server's owner can add it to TROUPE_IMPORT_PACKAGES",
            )
    return wrong


def _files(config: Section) -> dict[str, str]:
    return {
        field: Advice(f"{path!r} is outside the server's data folder", "name a file below TROUPE_HOME/data")
        for field, path in named(config, "file_fields")
        if PurePosixPath(path).is_absolute() or not _is_plain(path)
    }


def _models(config: Section, permitted: Permitted) -> dict[str, str]:
    return {
        field: refusal(_MODELS)
        for field, value in named(config, "model_name_fields")
        if not (
            PLAIN_NAME.fullmatch(value)
            or ARTIFACT.fullmatch(value)
            or HUB_ID.fullmatch(value)
            or _is_below(value, permitted, "models", permitted.model_folders)
            or ((match := _checkpoint_named(value, permitted.home)) and match["policy"])
        )
    }


def _checkpoints(config: Section, permitted: Permitted) -> dict[str, str]:
    return {
        field: refusal(_CHECKPOINTS)
        for field, value in named(config, "checkpoint_fields")
        if not (match := _checkpoint_named(value, permitted.home)) or match["policy"]
    }


def _folders(config: Section, permitted: Permitted) -> dict[str, str]:
    return {
        field: refusal(_FOLDERS)
        for field, value in named(config, "folder_fields")
        if not _is_below(value, permitted, "weights", permitted.weights_folders)
    }


def _addresses(config: Section, permitted: Permitted) -> dict[str, str]:
    """Addresses that the owner has not allowed: for the value of an environment variable, or inside a network."""
    wrong: dict[str, str] = {}
    for path, section in sections(config):
        for field, url, variable in section.addresses():
            if _is_named(url, permitted):
                continue
            if variable:
                wrong[f"{path}.{field}".lstrip(".")] = Advice(
                    f"the value of the server's {variable} may not be sent to {url}",
                    "the server's owner can add the address to TROUPE_KEY_ADDRESSES",
                )
            elif not _is_open(url, permitted):
                wrong[f"{path}.{field}".lstrip(".")] = Advice(
                    f"{url} may be inside a private network, which may not be reached from here",
                    "the server's owner can add the address to TROUPE_KEY_ADDRESSES, or its network to TROUPE_RUN_NETWORKS",
                )
    return wrong


def _programs(config: Section) -> dict[str, str]:
    return {
        f"{path}.{field}".lstrip("."): Advice(
            f"{what} may not be named from here",
            "name it in a function of a package of TROUPE_IMPORT_PACKAGES, or start the run by `troupe run`",
        )
        for path, section in sections(config)
        for field, what in section.programs()
    }


def _is_named(url: str, permitted: Permitted) -> bool:
    """Whether an address is this machine's or one that the owner has named; False for an invalid address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    own = parts.hostname in OWN_MACHINE and not parts.username
    return own or f"{parts.scheme}://{parts.netloc}" in permitted.key_addresses


def _is_open(url: str, permitted: Permitted) -> bool:
    """Whether the text of an address is that of a host outside of private networks, or inside of those that the owner has allowed."""
    try:
        parts = urlsplit(url)
        return not parts.username and host_allowed(parts.hostname or "", permitted.networks)
    except ValueError:
        return False


def _checkpoint_named(value: str, home: str) -> re.Match[str] | None:
    """A checkpoint below TROUPE_HOME, given by an absolute path or a path that begins with runs/."""
    return _CHECKPOINT.fullmatch(value.removeprefix(f"{home.rstrip('/')}/"))


def _is_below(value: str, permitted: Permitted, own: str, folders: Sequence[str]) -> bool:
    """Whether an absolute path, without resolving links, is below the data folder's subfolder `own` or below one of
    `folders`.

    If the data folder is itself in one of `folders`, the rest of it, with all users' runs, is excluded.
    """
    path, home = PurePosixPath(value), PurePosixPath(permitted.home)
    if not path.is_absolute() or not _is_plain(value):
        return False
    if path == home or home in path.parents:
        return home / own in path.parents
    return any(PurePosixPath(folder) in path.parents for folder in folders)


def _is_plain(path: str) -> bool:
    """Whether a path has no parts such as `..`."""
    return ".." not in PurePosixPath(path).parts and not path.startswith("~")
