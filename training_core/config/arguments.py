"""What the arguments of foreign code name: addresses with the variables whose values are sent there, and programs.

The code is permitted by its package. Its arguments may still make it connect, read a key of the environment or start a program, so they
are looked through by the names and the kinds of their values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

_ADDRESS = re.compile(r"(?i)(?:^|_)(?:urls?|hosts?|endpoints?|addresse?s?|api_base|server)$")
_VARIABLE = re.compile(r"(?i)(?:^|_)(?:var|variable|env_var|key_env|token_env|key_name)$")
"""Names of arguments that name an environment variable."""
_STARTS = re.compile(
    r"(?i)(?:^|_)(?:commands?|cmd|env|envs|env_vars|environ|images?|docker|dockerfile|containers?|shell|entrypoint|provider_kwargs|"
    r"trust_remote_code|folders?|mounts?|volumes?|scripts?|executable)(?:_|$)"
)
"""Names of arguments that start programs, choose their environments, or give access to folders."""
_WORDS = re.compile(r"[\w .,+-]*", re.ASCII)
"""Texts that name no file, address, program or repository."""
Leaf = tuple[tuple[str, ...], Any, Mapping[str, Any]]


def leaves(value: Any, path: tuple[str, ...]) -> Iterator[Leaf]:
    """(path, value, the table that it is in) of all single values."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, part in items:
        if isinstance(part, Mapping | list | tuple):
            yield from leaves(part, (*path, str(name)))
        else:
            yield (*path, str(name)), part, value if isinstance(value, Mapping) else {}


def name_of(path: Sequence[str]) -> str:
    """The last name of a path that is not the number of an item."""
    return next((name for name in reversed(path) if not name.isdigit()), "")


def addresses_in(arguments: Mapping[str, Any], field: str, key: str = "") -> Iterator[tuple[str, str, str]]:
    """(field, address, variable) of all addresses, and of variables whose values go to an address that is not given.

    key: a variable whose value goes to every address.
    """
    for path, value, table in leaves(arguments, (field,)):
        if not isinstance(value, str) or not value:
            continue
        name = name_of(path)
        variables = [str(table[other]) for other in table if _VARIABLE.search(other) and table[other]]
        if "://" in value or _ADDRESS.search(name):
            yield ".".join(path), value, variables[0] if variables else key
        elif _VARIABLE.search(name) and not any(_ADDRESS.search(other) and table[other] for other in table):
            yield ".".join(path), "an address that is not given", value


def programs_in(
    arguments: Mapping[str, Any], field: str, open_names: Sequence[str], aside: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """(field, what it names) of arguments that start a program, and of texts that may name one.

    open_names: patterns of names whose texts may be any. aside: names that are judged elsewhere.
    """
    for path, value, _ in leaves(arguments, (field,)):
        name, where = name_of(path), ".".join(path)
        if any(_STARTS.search(part) for part in path[1:]):
            yield where, f"a program, its environment or a folder ({name})"
        elif isinstance(value, str) and not (name in aside or _is_plain(name, value, open_names)):
            yield where, f"a text that may name a program, a file or a repository ({name})"


def _is_plain(name: str, value: str, open_names: Sequence[str]) -> bool:
    """Whether a text is open, has words only, or is an address or a variable, which `addresses_in` finds."""
    is_known = "://" in value or _ADDRESS.search(name) or _VARIABLE.search(name) or _WORDS.fullmatch(value)
    return bool(is_known) or any(fnmatchcase(name, pattern) for pattern in open_names)


def module_started(args: Mapping[str, Any]) -> str:
    """The module of a command `python -m MODULE`; empty for other commands."""
    match args.get("command"):
        case ["python", "-m", str(module), *words] if all(
            isinstance(word, str) and word.isalnum() for word in words
        ):
            return module
        case _:
            return ""
