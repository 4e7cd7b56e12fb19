"""Environments and tasksets of the package verifiers, of its classic interface (`load_environment`) and of its version 1.

They play their own tasks: an episode calls the policies through the gateway (training_core/llm/agents/verifiers.py). Here are the
config and the tasks.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from inspect import signature
from itertools import islice, tee
from textwrap import shorten
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from training_core.config.arguments import addresses_in, programs_in
from training_core.config.base import Arguments, EnvironmentSection
from training_core.errors import ConfigError, links
from training_core.importing import IMPORT_PATH, load_object
from training_core.llm.environments.base import Split
from training_core.llm.environments.dataset import order_of_pass
from training_core.llm.environments.external import ExternalEnvironment

_NAME = r"^([\w-]+/)?[\w.-]+(@[\w.]+)?$"
"""The name of an installed environment, with the owner and the version that its hub adds."""
_OWN_KEY = "PRIME_API_KEY"
"""Variable whose value verifiers sends to an address by default."""
_HELD_OUT = 4
"""One of so many tasks is held out, if the environment has no tasks for evaluation."""
_NETWORK = {"ConnectionError", "TransportError", "OfflineModeIsEnabled", "LocalEntryNotFoundError"}


class Verifiers(EnvironmentSection):
    """An environment or taskset of the package verifiers; its seats are the roles of the team."""

    roles: ClassVar[tuple[str, ...]] = ("agent",)
    open_roles: ClassVar[bool] = True
    player: ClassVar[str] = "training_core.llm.agents.verifiers:VerifiersPlayer"
    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    task_fields: ClassVar[tuple[str, ...]] = ("path", "args")
    open_arguments: ClassVar[tuple[str, ...]] = (
        "*prompt", "*instruction", "*instructions", "*rubric", "*template", "*description", "*format", "model", "dataset_name",
    )  # fmt: skip
    """Arguments whose texts may be any on a server; others with more than words may name a program, a file or a repository."""
    type: Literal["verifiers"] = "verifiers"
    """An environment of the verifiers library or of its hub, which plays its tasks through the gateway."""
    path: str = Field(pattern=f"{_NAME}|{IMPORT_PATH}")
    """Name of an installed environment or taskset (gsm8k, owner/gsm8k), or package.module:Name of its class or function."""
    args: Arguments = {}
    """Arguments of a classic environment; of a taskset the fields of verifiers' EnvConfig: taskset.split, agent.max_turns."""

    def modules(self) -> Iterator[tuple[str, str]]:
        """Code that is named without a colon, or in the arguments of a taskset."""
        names = _named(self.args)
        yield from (("args", _module_of(name.partition(":")[0])) for name in names)
        if ":" not in self.path:
            yield "path", _module_of(self.path)

    def addresses(self) -> Iterator[tuple[str, str, str]]:
        """Those in the arguments: verifiers sends a key to each, if no variable is named, its own."""
        return addresses_in(self.args, "args", _OWN_KEY)

    def programs(self) -> Iterator[tuple[str, str]]:
        """Programs, containers, foreign environments and folders in the arguments."""
        return programs_in(self.args, "args", self.open_arguments, ("id", "fn"))


def _module_of(name: str) -> str:
    return name.rpartition("/")[2].partition("@")[0].replace("-", "_")


def _named(value: Any) -> Iterator[str]:
    """Plugins and functions that arguments name."""
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
        if key in ("id", "fn") and isinstance(part, str):
            yield part
        elif isinstance(part, dict | list):
            yield from _named(part)


class Loaded(NamedTuple):
    """An environment with its tasks."""

    environment: Any
    """A classic environment, or the EnvConfig of version 1."""
    classic: bool
    tasks: Mapping[Split, Any]
    runs_programs: bool = False
    """Whether tasks or their rewards run programs in the runtime of a seat, such as tests of what an answer wrote."""

    def task(self, seed: int, number: int, split: Split) -> Any:
        """The task of a number: held-out ones in order, others shuffled again for each pass."""
        tasks = self.tasks[split]
        if isinstance(tasks, _Endless):
            return tasks[number]
        passes, index = divmod(number, len(tasks))
        return tasks[order_of_pass(seed, passes, len(tasks))[index] if split == "train" else index]


class _Endless:
    """The tasks of a generator, by index."""

    def __init__(self, tasks: Iterator[Any]) -> None:
        self._rest, self._read = tasks, [next(tasks)]  # data that are not there are reported now

    def __getitem__(self, index: int) -> Any:
        self._read += islice(self._rest, max(index + 1 - len(self._read), 0))
        return self._read[index]


def load(section: Verifiers) -> Loaded:
    """The environment, loaded once in a process. Raises ConfigError."""
    try:
        return _load(section.path, json.dumps(section.args, sort_keys=True))
    except ConfigError:
        raise
    except Exception as error:
        raise _explained(section.path, error) from error


@lru_cache(maxsize=4)
def _load(path: str, args: str) -> Loaded:
    from verifiers.legacy.envs import environment as classic
    from verifiers.v1.utils.loaders import import_taskset

    # It would replace the process's handlers of SIGINT and SIGTERM, and only the main thread may do so.
    classic.signal = SimpleNamespace(signal=lambda *_: None, SIGINT=2, SIGTERM=15)
    target: Any = load_object(path, "environment.path") if ":" in path else None
    make = target or getattr(import_taskset(_plain(path)), "load_environment", None)
    if make is None or (isinstance(make, type) and not issubclass(make, classic.Environment)):
        return _taskset(path, target, json.loads(args))
    environment = make(**json.loads(args))
    if environment.requires_group_rollouts:
        raise TypeError("its rubric compares the rollouts of a group, but episodes are scored one by one")
    rows, held_out = environment.build_dataset(), environment.build_eval_dataset()
    if rows is None or held_out is None:
        return Loaded(environment, True, _divided(held_out if rows is None else rows))
    return Loaded(environment, True, {"train": rows, "eval": held_out})


def _plain(path: str, kind: type | None = None) -> str:
    """A name without dots by which verifiers imports a module, or the class of an import path."""
    path = path if kind else _module_of(path)
    if "." not in path and kind is None:
        return path
    name = re.sub(r"\W", "_", path).lower()
    sys.modules[name] = module = ModuleType(name) if kind else import_module(path)
    if kind:
        vars(module).update({"__all__": [kind.__name__], kind.__name__: kind})
    return name


def _taskset(path: str, kind: type | None, arguments: dict[str, Any]) -> Loaded:
    from verifiers.v1 import Env
    from verifiers.v1.utils.loaders import load_taskset, resolve_env_config

    name = {"id": _plain(path, kind)}
    plays = kind is not None and issubclass(kind, Env)  # else it has tasks
    source = ({} if plays else name) | arguments.get("taskset", {})
    if "id" not in source:
        text = f"{path} plays the tasks of a taskset"
        raise ConfigError({"environment.args": text}, remedy="set environment.args.taskset.id")
    source["id"] = _plain(source["id"])
    config = resolve_env_config((name if plays else {}) | arguments | {"taskset": source})
    taskset = load_taskset(config.taskset)
    tasks = _divided(taskset, _Endless if taskset.INFINITE else list)
    return Loaded(config, False, tasks, _runs_programs(tasks["eval"][0]))


def _runs_programs(task: Any) -> bool:
    from verifiers.v1 import Task

    hooks = [*task.hooks("reward"), *task.hooks("metric")]
    for name in ("setup", "finalize"):
        hooks += [getattr(task, name)] if getattr(type(task), name) is not getattr(Task, name) else []
    needs = any("runtime" in signature(hook).parameters for hook in hooks)
    return needs or task.NEEDS_CONTAINER or bool(task.data.image)


def _divided(tasks: Iterable[Any], collect: Callable[[Iterator[Any]], Any] = list) -> dict[Split, Any]:
    """Tasks by split, independent of the run's seed. A single one is in both."""
    numbered, copy = (enumerate(part) for part in tee(tasks))
    held_out = collect(task for index, task in copy if not index % _HELD_OUT)
    train = collect(task for index, task in numbered if index % _HELD_OUT) or held_out
    if not held_out:
        raise ValueError("it has no tasks")
    return {"train": train, "eval": held_out}


def _explained(path: str, error: Exception) -> ConfigError:
    causes = list(links(error))
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    modules = [str(cause.name) for cause in causes if isinstance(cause, ModuleNotFoundError)]
    keys = [key for cause in causes if "MissingKeyError" in kinds for key in getattr(cause, "keys", ())]
    text = str(causes[-1]).strip("* \n")  # NLTK's has a frame
    cause = shorten(f"{type(causes[-1]).__name__}: {text}", 400, placeholder=" …")
    if any(name.partition(".")[0] == "verifiers" for name in modules):
        text, remedy = "the package verifiers is not installed", 'pip install "troupe[verifiers]"'
    elif modules:
        text, remedy = f"there is no module {modules[-1]!r}", f"install {path} where the workers run"
    elif keys:
        text, remedy = f"{path} needs {', '.join(keys)}", "set it in the environment of the workers"
    elif kinds & _NETWORK or type(causes[-1]) is LookupError:  # of NLTK
        text, remedy = f"{path} needs a network: {cause}", "connect the workers, or download its data before"
    else:
        text, remedy = f"{path} cannot be loaded: {cause}", "correct environment.args or the environment"
    return ConfigError({"environment.path": text}, remedy=remedy)


class VerifiersEnvironment(ExternalEnvironment):
    """The number of a task: the environment itself makes the prompts, and gets the answers."""

    def __init__(self, config: Verifiers, seed: int) -> None:
        """Raises ConfigError if the environment cannot be loaded."""
        load(config)
        self._path = config.path

    def reset(self, task: int, split: Split) -> None:
        """Start with a task."""
        self.task_id, self.title = f"{split}-{task}", f"{self._path} {task}"

    def observe(self, role: str) -> None:
        """Nothing."""
