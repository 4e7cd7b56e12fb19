"""The team of a config: turn order, the policy of each role, which are trained; as facts, as text, as a picture.

The picture has the roles on the left in turn order, the policies on the right, and a line from each role to its policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.text import Truncator

from training_core.config.kinds import config_kind
from training_core.config.team import steps_of
from troupe_client.documents.experiments import Team, TeamPolicy, TeamRole
from webapp.common.tones import SHARED, policy_tones, role_tones

WIDTH = 448
ROW, BOX = 60, 44
"""Height of a row, and of a box in it."""
ROLE_LEFT, ROLE_RIGHT, POLICY_LEFT = 40, 208, 272
"""Edges of the boxes."""
BEND = 34
"""Maximum bend of turn arrows to the left."""


class RoleForm(TeamRole):
    """A role with its colour. Its policy may be empty while a form is incomplete."""

    tone: int


class Speaker(TeamPolicy):
    """A policy with its colour."""

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


def team_document(team: TeamForm) -> Team:
    """Return the document of a team."""
    return Team(order=team.order, steps=team.steps, roles=team.members, policies=team.speakers)


def team_words(team: TeamForm) -> str:
    """Describe the picture in text, for readers who cannot see it."""
    order = ", then ".join(" and ".join(step) + (" at once" if len(step) > 1 else "") for step in team.steps)
    sentences = [
        f"{member.role} speaks through {member.policy}, {'trained' if member.trained else 'frozen'}"
        for member in team.members
    ]
    return f"Turn order: {order}. {'; '.join(sentences)}."


def _role_form(name: str, role: Mapping[str, Any], steps: list[list[str]], tone: int) -> RoleForm:
    return RoleForm(
        role=name,
        policy=str(role.get("policy") or ""),
        trained=role.get("trained", True) is True,
        prompt=str(role.get("prompt") or ""),
        speaks=[number for number, step in enumerate(steps, 1) if name in step],
        tone=tone,
    )


def _speaker(name: str, policy: Mapping[str, Any], members: list[RoleForm], tone: int) -> Speaker:
    mine = [member for member in members if member.policy == name]
    network = policy.get("network")
    return Speaker(
        policy=name,
        model=str(network.get("type") if isinstance(network, Mapping) else policy.get("model") or ""),
        trained=any(member.trained for member in mine),
        roles=[member.role for member in mine],
        tone=tone,
    )


@dataclass(frozen=True)
class Box:
    """A role or a policy in the picture; `y` is the position of its upper edge."""

    name: str
    under: str
    tone: int
    frozen: bool
    y: float

    @property
    def middle(self) -> float:
        """Position of its vertical centre."""
        return self.y + BOX / 2


def team_svg(team: TeamForm) -> str:
    """Return SVG that uses the page's colours inside a page, and its own colours elsewhere."""
    return render_to_string("experiments/_team.svg", picture(team))


def picture(team: TeamForm) -> dict[str, Any]:
    """Return boxes and lines with their coordinates, in the units of the drawing.

    A line leads from a role to its policy, an arrow from a role to those that act after it; the numbers tell the return to
    the first one.
    """
    height = ROW * max(len(team.members), len(team.speakers), 1)
    roles = [
        Box(role.role, _does(role, takes_turns=team.takes_turns), role.tone, not role.trained, y)
        for role, y in zip(team.members, _places(len(team.members), height), strict=True)
    ]
    policies = [
        Box(speaker.policy, _state(speaker), speaker.tone, not speaker.trained, y)
        for speaker, y in zip(team.speakers, _places(len(team.speakers), height), strict=True)
    ]
    to, half = {box.name: box.middle for box in policies}, (ROLE_RIGHT + POLICY_LEFT) / 2
    at = {box.name: box.middle for box in roles}
    followed = [
        (at[one], at[other])
        for step, after in zip(team.steps, team.steps[1:], strict=False)
        for one in step
        for other in after
        if one != other
    ]
    return {
        "width": WIDTH,
        "height": height,
        "roles": roles,
        "policies": policies,
        "edges": [
            {"path": _curve(ROLE_RIGHT, box.middle, half, POLICY_LEFT, to[role.policy]), "box": box}
            for role, box in zip(team.members, roles, strict=True)
            if role.policy in to
        ],
        "turns": [
            _curve(ROLE_LEFT, y, ROLE_LEFT - min(BEND, 14 + abs(end - y) / 8), ROLE_LEFT - 3, end)
            for y, end in followed
        ],
        "words": team_words(team),
    }


def _places(count: int, height: float) -> list[float]:
    """Return the upper edges of `count` boxes, distributed over the height."""
    step = height / max(count, 1)
    return [step * index + (step - BOX) / 2 for index in range(count)]


def _curve(x: float, y: float, bend: float, end_x: float, end_y: float) -> str:
    return f"M{x} {y:g}C{bend:g} {y:g} {bend:g} {end_y:g} {end_x} {end_y:g}"


def _does(role: RoleForm, *, takes_turns: bool) -> str:
    speaks = f"speaks {', '.join(map(ordinal, role.speaks))}" if role.speaks else "never speaks"
    does = speaks if takes_turns else "acts in every step"
    return does if role.trained else f"{does} \N{MIDDLE DOT} frozen"


def _state(speaker: Speaker) -> str:
    state = "trained" if speaker.trained else "frozen" if speaker.roles else "unused"
    model = Truncator(speaker.model.rstrip("/").rsplit("/", 1)[-1]).chars(18)
    return f"{model} \N{MIDDLE DOT} {state}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
