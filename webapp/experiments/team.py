"""The team of a config for pictures and text: turn order, the policy of each role, and which are trained."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from training_core.config.kinds import config_kind
from training_core.config.team import steps_of
from webapp.common.tones import SHARED, policy_tones, role_tones


@dataclass(frozen=True)
class RoleForm:
    """A role."""

    role: str
    policy: str
    """May be empty while a form is incomplete."""
    trained: bool
    prompt: str
    speaks: tuple[int, ...]
    """Steps of a turn, from 1; simultaneous roles share one."""
    tone: int


@dataclass(frozen=True)
class Speaker:
    """A policy."""

    policy: str
    model: str
    trained: bool
    """Whether a trained role uses it."""
    roles: tuple[str, ...]
    tone: int


@dataclass(frozen=True)
class TeamForm:
    """Roles in the order of their first turn; policies in the order of their roles, unused ones last."""

    members: list[RoleForm]
    speakers: list[Speaker]
    order: list[str]
    steps: list[list[str]]
    """Order of the roles within a turn; those of one step act simultaneously."""
    takes_turns: bool = True
    """False: all agents act in every step."""


def team_read(tree: Mapping[str, Any]) -> TeamForm:
    """Read the team of a config tree, which may still contain errors."""
    team = tree.get("team") or {}
    roles = {name: role for name, role in (team.get("roles") or {}).items() if isinstance(role, Mapping)}
    turn_order = team.get("turn_order")
    names = (
        [name for name in turn_order if isinstance(name, str)] if isinstance(turn_order, list | tuple) else []
    )
    order = [name for name in names if name in roles] or list(roles)
    takes_turns = config_kind(tree).takes_turns
    parallel = team.get("parallel") if takes_turns else order
    at_once = (
        [name for name in parallel if isinstance(name, str)] if isinstance(parallel, list | tuple) else []
    )
    steps = [[name for _, name in step] for step in steps_of(order, at_once)]
    tones = role_tones({"team": {"roles": roles, "turn_order": order}})
    members = [_role_form(name, roles[name], steps, tones[name]) for name in dict.fromkeys([*order, *roles])]
    role_policies = {member.role: {"policy": member.policy} for member in members}
    drawn = policy_tones({"team": {"roles": role_policies, "turn_order": order}})
    policies = tree.get("policies") or {}
    known = [
        name
        for name in dict.fromkeys([*(member.policy for member in members), *policies])
        if isinstance(policies.get(name), Mapping)
    ]
    speakers = [_speaker(name, policies[name], members, drawn.get(name, SHARED)) for name in known]
    return TeamForm(members, speakers, order, steps, takes_turns)


def team_document(team: TeamForm) -> dict[str, Any]:
    """Return JSON, without colours."""

    def plain(item: RoleForm | Speaker) -> dict[str, Any]:
        return {name: value for name, value in asdict(item).items() if name != "tone"}

    return {
        "order": team.order,
        "steps": team.steps,
        "roles": [plain(member) for member in team.members],
        "policies": [plain(speaker) for speaker in team.speakers],
    }


def team_words(team: TeamForm) -> str:
    """Describe the picture in text, for readers who cannot see it."""
    order = ", then ".join(" and ".join(step) + (" at once" if len(step) > 1 else "") for step in team.steps)
    sentences = [
        f"{member.role} speaks through {member.policy}, {'trained' if member.trained else 'frozen'}"
        for member in team.members
    ]
    return f"Turn order: {order}. {'; '.join(sentences)}."


def _role_form(name: str, role: Mapping[str, Any], steps: list[list[str]], tone: int) -> RoleForm:
    speaks = tuple(number for number, step in enumerate(steps, 1) if name in step)
    prompt = str(role.get("prompt") or "")
    return RoleForm(
        name, str(role.get("policy") or ""), role.get("trained", True) is True, prompt, speaks, tone
    )


def _speaker(name: str, policy: Mapping[str, Any], members: list[RoleForm], tone: int) -> Speaker:
    mine = [member for member in members if member.policy == name]
    network = policy.get("network")
    model = str(network.get("type") if isinstance(network, Mapping) else policy.get("model") or "")
    return Speaker(
        name, model, any(member.trained for member in mine), tuple(member.role for member in mine), tone
    )
