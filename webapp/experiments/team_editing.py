"""Operations of the team editor: add, remove, move and rename roles, add and remove policies. Pure functions from tree to tree."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training_core.config.base import EnvironmentSection
from training_core.config.files import apply_overrides, parse_config
from training_core.config.kinds import config_kind
from training_core.config.profiles import PROFILES, profile_overrides
from training_core.config.team import NAME_PATTERN
from training_core.errors import ConfigError

Tree = dict[str, Any]
MOST = 64
"""Maximum number of roles and of policies in a config."""


def role_add(tree: Tree, name: str) -> Tree:
    """Add a role, last in the turn order, with the first policy. Raises ConfigError for an invalid name."""
    roles = tree["team"]["roles"]
    _check_name("team.roles", name, roles)
    role = config_kind(tree).role(policy="x").model_dump(mode="json") | {
        "policy": next(iter(tree["policies"]), "")
    }
    return _with_team(tree, {**roles, name: role}, [*_order(tree), name])


def role_remove(tree: Tree, name: str) -> Tree:
    """Remove a role. Raises ConfigError if it is the last one."""
    roles = {role_name: role for role_name, role in tree["team"]["roles"].items() if role_name != name}
    if not roles:
        raise ConfigError({"team.roles": "a team has at least one role; add another one first"})
    return _with_team(tree, roles, [role_name for role_name in _order(tree) if role_name != name])


def role_rename(tree: Tree, name: str, new: str) -> Tree:
    """Rename a role everywhere in the config: in the team with its settings, in fields of the environment that name roles, and in the
    metric that marks the best checkpoint. Raises ConfigError, at the role, for an invalid name and for a role that the environment fixes.
    """
    if new == name:
        return tree
    roles = tree["team"]["roles"]
    path = f"team.roles.{name}"
    if name not in roles:
        raise ConfigError({path: f"there is no role {name}"})
    section = environment_section(tree)
    fixed = section.fixed_roles(tree["environment"]) if section else ()
    if name in fixed:
        kind = tree["environment"]["type"]
        raise ConfigError({
            path: f"the environment {kind} needs a role with the name {name}; choose another environment to rename it"
        })  # fmt: skip
    _check_name(path, new, {role: roles[role] for role in roles if role != name})
    renamed = {new if role == name else role: value for role, value in roles.items()}
    team = {
        field: [new if role == name else role for role in tree["team"].get(field) or ()]
        for field in ("turn_order", "parallel")
        if field in tree["team"]
    }
    changed: dict[str, Any] = {"team.roles": renamed}
    changed |= {f"team.{field}": value for field, value in team.items()}
    for field in section.role_fields if section else ():
        changed[f"environment.{field}"] = _renamed(tree["environment"].get(field), name, new)
    best = tree["checkpoint"].get("best_of")
    if isinstance(best, str):
        prefix, *rest = best.split("/")
        changed["checkpoint.best_of"] = "/".join([prefix, *_renamed(rest[:1], name, new), *rest[1:]])
    return apply_overrides(tree, changed)


def _renamed(value: Any, name: str, new: str) -> Any:
    """A role's name, a list of names, or a table by name, with the new name."""
    if isinstance(value, Mapping):
        return {new if role == name else role: item for role, item in value.items()}
    if isinstance(value, list | tuple):
        return [new if role == name else role for role in value]
    return new if value == name else value


def role_move(tree: Tree, name: str, by: int) -> Tree:
    """Swap a role with the one `by` positions after it (before it if negative)."""
    order = _order(tree)
    if name not in order or not 0 <= order.index(name) + by < len(order):
        return tree
    here = order.index(name)
    order[here], order[here + by] = order[here + by], order[here]
    return _with_team(tree, tree["team"]["roles"], order)


def policy_add(tree: Tree, name: str) -> Tree:
    """Add a policy with the settings of the first one. Raises ConfigError for an invalid name."""
    policies = tree["policies"]
    _check_name("policies", name, policies)
    like = next(iter(policies.values()), None) or config_kind(tree).policy().model_dump(mode="json")
    return tree | {"policies": {**policies, name: like}}


def policy_remove(tree: Tree, name: str) -> Tree:
    """Remove a policy and assign its roles to the first other one. Raises ConfigError if it is the last one."""
    policies = {
        policy_name: policy for policy_name, policy in tree["policies"].items() if policy_name != name
    }
    if not policies:
        raise ConfigError({"policies": "a team has at least one policy; add another one first"})
    other = next(iter(policies))
    roles = {
        role_name: role | {"policy": other} if role.get("policy") == name else role
        for role_name, role in tree["team"]["roles"].items()
    }
    return _with_team(tree | {"policies": policies}, roles, _order(tree))


def team_follow(tree: Tree) -> Tree:
    """Replace the team with the roles of the environment: existing roles are kept, new ones are added."""
    section = environment_section(tree)
    wanted: Sequence[str] = getattr(section, "roles", ())
    roles = tree["team"]["roles"]
    if not wanted or set(wanted) == set(roles):
        return tree
    for name in wanted:
        tree = tree if name in roles else role_add(tree, name)
    for name in roles:
        tree = tree if name in wanted else role_remove(tree, name)
    return tree


def name_follow(tree: Tree, preset: Mapping[str, Any]) -> Tree:
    """Name the run after its environment if it has the default name of the preset or of another environment."""
    environment, name = str(tree["environment"].get("type")), tree["run"].get("name")
    if name not in (preset["run"]["name"], *config_kind(tree).environments):
        return tree
    same = environment == preset["environment"].get("type")
    return apply_overrides(tree, {"run.name": preset["run"]["name"] if same else environment})


def profile_take(tree: Tree, name: str) -> Tree:
    """Apply the devices and environment workers of a resource profile. Raises ConfigError for an unknown one, or an invalid tree."""
    if name not in PROFILES:
        raise ConfigError({"resources": f"unknown profile {name!r}; profiles are {', '.join(PROFILES)}"})
    return apply_overrides(tree, profile_overrides(name, parse_config(tree)))


ACTS: dict[str, Callable[[Tree, str], Tree]] = {
    "role-add": role_add,
    "role-remove": role_remove,
    "role-up": lambda tree, name: role_move(tree, name, -1),
    "role-down": lambda tree, name: role_move(tree, name, 1),
    "policy-add": policy_add,
    "policy-remove": policy_remove,
    "profile": profile_take,
    "reshape": lambda tree, _: team_follow(tree),
}
"""act -> (tree, name) -> tree. reshape: the type of a part has changed, and the team follows."""
RENAME = "role-rename"
"""The act that needs a new name, too: `role_rename`."""


def environment_section(tree: Tree) -> type[EnvironmentSection] | None:
    """Return the config class of the tree's environment."""
    return config_kind(tree).environments.get(str(tree["environment"].get("type")))


def _order(tree: Tree) -> list[str]:
    team: Mapping[str, Any] = tree["team"]
    order = team.get("turn_order") or team["roles"]
    return [str(name) for name in order]


def _with_team(tree: Tree, roles: Mapping[str, Any], order: Sequence[str]) -> Tree:
    at_once = [name for name in tree["team"].get("parallel") or () if name in roles]
    changed: dict[str, Any] = {"team.roles": {name: roles[name] for name in order}}
    if config_kind(tree).takes_turns:
        changed |= {"team.turn_order": list(order), "team.parallel": at_once}
    return apply_overrides(tree, changed)


def _check_name(path: str, name: str, known: Mapping[str, Any]) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(
            {
                path: f"{name!r} is not a valid name: use lower-case letters, digits and _, starting with a letter"
            }
        )
    if name in known:
        raise ConfigError({path: f"{name} already exists"})
    if len(known) >= MOST:
        raise ConfigError({path: f"at most {MOST} are allowed"})
