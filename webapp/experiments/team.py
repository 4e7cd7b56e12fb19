"""The team of a config, as it is drawn and told: who speaks when, through which policy, and who learns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from webapp.common.tones import SHARED, policy_tones, role_tones


@dataclass(frozen=True)
class Seat:
    """A role."""

    role: str
    policy: str
    """May name no policy while a form is being filled in."""
    trained: bool
    prompt: str
    speaks: tuple[int, ...]
    """Places in the turn order, from 1."""
    tone: int


@dataclass(frozen=True)
class Speaker:
    """A policy."""

    policy: str
    model: str
    trained: bool
    """Whether some trained role uses it."""
    roles: tuple[str, ...]
    tone: int


@dataclass(frozen=True)
class Team:
    """Roles in the order of their first turn; policies in the order of their roles, unused ones last."""

    seats: list[Seat]
    speakers: list[Speaker]
    order: list[str]


def team_read(tree: Mapping[str, Any]) -> Team:
    """From a config tree, which may still have mistakes in it."""
    team = tree.get("team") or {}
    roles = {name: role for name, role in (team.get("roles") or {}).items() if isinstance(role, Mapping)}
    said = team.get("turn_order")
    names = [name for name in said if isinstance(name, str)] if isinstance(said, list | tuple) else []
    order = [name for name in names if name in roles] or list(roles)
    tones = role_tones({"team": {"roles": roles, "turn_order": order}})
    seats = [_seat(name, roles[name], order, tones[name]) for name in dict.fromkeys([*order, *roles])]
    seated = {seat.role: {"policy": seat.policy} for seat in seats}
    drawn = policy_tones({"team": {"roles": seated, "turn_order": order}})
    policies = tree.get("policies") or {}
    known = [
        name
        for name in dict.fromkeys([*(seat.policy for seat in seats), *policies])
        if isinstance(policies.get(name), Mapping)
    ]
    speakers = [_speaker(name, policies[name], seats, drawn.get(name, SHARED)) for name in known]
    return Team(seats, speakers, order)


def team_document(team: Team) -> dict[str, Any]:
    """JSON shape, without colours."""

    def plain(each: Seat | Speaker) -> dict[str, Any]:
        return {name: value for name, value in asdict(each).items() if name != "tone"}

    return {
        "order": team.order,
        "roles": [plain(seat) for seat in team.seats],
        "policies": [plain(speaker) for speaker in team.speakers],
    }


def team_words(team: Team) -> str:
    """The picture in words, for those who do not see it."""
    order = ", then ".join(team.order)
    said = [
        f"{seat.role} speaks through {seat.policy}, {'trained' if seat.trained else 'frozen'}"
        for seat in team.seats
    ]
    return f"Turn order: {order}. {'; '.join(said)}."


def _seat(name: str, role: Mapping[str, Any], order: list[str], tone: int) -> Seat:
    speaks = tuple(place for place, each in enumerate(order, 1) if each == name)
    prompt = str(role.get("prompt") or "")
    return Seat(name, str(role.get("policy") or ""), role.get("trained", True) is True, prompt, speaks, tone)


def _speaker(name: str, policy: Mapping[str, Any], seats: list[Seat], tone: int) -> Speaker:
    mine = [seat for seat in seats if seat.policy == name]
    model = str(policy.get("model") or "")
    return Speaker(name, model, any(seat.trained for seat in mine), tuple(seat.role for seat in mine), tone)
