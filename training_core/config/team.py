"""Who plays: roles, the policies behind them and the order in which they speak."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from training_core.config.base import Section

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"


class Sampling(Section):
    """How tokens are drawn from a policy."""

    temperature: float = Field(1.0, gt=0.0, le=10.0)
    """Softmax temperature while training; evaluation has its own. 1 samples from the policy itself."""
    top_k: int = Field(0, ge=0)
    """Keep only the k likeliest tokens; 0 disables."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Keep the smallest set of tokens whose probability reaches p; 1 disables."""
    max_tokens: int = Field(8, ge=1, le=32768)
    """Longest answer in tokens, end-of-turn token included."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), max_length=16)
    """Texts that end an answer as soon as it contains one: its tokens are kept, its text ends before the stop text."""


class Role(Section):
    """A seat in the team."""

    policy: str = Field(pattern=NAME_PATTERN)
    """Name of the policy that speaks for this role. Two roles that name one policy share its weights."""
    prompt: str = ""
    """System prompt put before every observation; empty for none."""
    trained: bool = True
    """Whether this role's turns train its policy; false freezes the role."""
    sampling: Sampling = Sampling()
    """How this role's tokens are drawn."""


class Team(Section):
    """The roles of the experiment and their turn order."""

    roles: dict[str, Role] = Field(min_length=1, max_length=64)
    """Roles by name, e.g. planner and executor."""
    alternate: int = Field(0, ge=0)
    """0: all policies learn in every iteration; n: they take turns, n iterations each, in the order of their roles."""
    turn_order: tuple[str, ...] = ()
    """Role names in the order in which they speak within a turn; empty means the order of `roles`."""

    @model_validator(mode="before")
    @classmethod
    def _turn_order_is_said(cls, given: Any) -> Any:
        """What is stored says the order: a database may keep the names of a table in another one."""
        if isinstance(given, dict) and isinstance(given.get("roles"), dict) and not given.get("turn_order"):
            return given | {"turn_order": tuple(given["roles"])}
        return given

    @model_validator(mode="after")
    def _turn_order_names_roles(self) -> Self:
        unknown = [name for name in self.turn_order if name not in self.roles]
        if unknown:
            raise ValueError(
                f"turn_order: names {', '.join(unknown)}, which is no role; roles are {', '.join(self.roles)}"
            )
        silent = [name for name in self.roles if name not in self.turn_order]
        if silent:
            raise ValueError(f"turn_order: leaves out {', '.join(silent)}; add it, or remove that role")
        return self

    @property
    def order(self) -> tuple[str, ...]:
        """Role names in speaking order."""
        return self.turn_order
