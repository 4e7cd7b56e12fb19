"""The team: roles, their policies and the order in which they speak."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from training_core.config.base import Arguments, Section, cross_field
from training_core.config.effects import (
    PROGRAMS,
    Effects,
    Place,
    at_most,
    iterations,
    needs,
    only_if,
    plays_turns,
    renders_messages,
    samples,
    unless,
)
from training_core.errors import InvalidValue
from training_core.importing import IMPORT_PATH

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"


class Sampling(Section):
    """Sampling settings of a policy."""

    effects: ClassVar[Effects] = {
        "eval_temperature": only_if(
            lambda at: at.config.evaluation.every and at.config.evaluation.sampled,
            "only with evaluation.every above 0 and evaluation.sampled = true",
        ),
        "stop": samples,
    }
    temperature: float = Field(1.0, gt=0.0, le=10.0)
    """Softmax temperature while training; evaluation has a separate setting. 1 samples from the policy itself."""
    top_k: int = Field(0, ge=0)
    """Keep only the k most likely tokens; 0 disables."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Keep the smallest set of tokens whose probability reaches p; 1 disables."""
    eval_temperature: float = Field(0.0, ge=0.0, le=10.0)
    """This role's temperature in sampled evaluation; 0 uses evaluation.temperature."""
    max_tokens: int = Field(8, ge=1, le=32768)
    """Maximum length of an answer in tokens, including the end-of-turn token."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), max_length=16)
    """Strings that end an answer as soon as it contains one: its tokens are kept, its text ends before the stop string."""


class Speaks(Section):
    """In which turns of an episode a role speaks; it is skipped in the others. Turns count from 1."""

    orders: ClassVar[Effects] = {
        "first": at_most(
            "first",
            lambda at: int(at.config.max_turns),
            "environment.max_turns",
            "the role never speaks; set it lower",
        )
    }
    first: int = Field(1, ge=1)
    """First turn in which the role speaks."""
    last: int = Field(0, ge=0)
    """Last turn in which the role speaks; 0: until the end."""
    every: int = Field(1, ge=1)
    """The role speaks in every n-th turn from the first: 2 skips every other turn."""

    @cross_field
    def _last_comes_after_first(self) -> Self:
        if self.last and self.last < self.first:
            raise InvalidValue(f"last: must not be below first = {self.first}", remedy="set 0 for no limit")
        return self

    def in_turn(self, number: int) -> bool:
        """Whether the role speaks in this turn, counted from 1."""
        ended = 0 < self.last < number
        return number >= self.first and not ended and (number - self.first) % self.every == 0


class RoleAgent(Section):
    """A custom agent behind a role: it rewrites the role's messages."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    effects: ClassVar[Effects] = {"args": unless("path", "")}
    path: str = Field("", pattern=rf"^$|{IMPORT_PATH}")
    """package.module:function that maps messages to messages, or a class with such callable instances; empty for none."""
    args: Arguments = {}
    """Additional keyword arguments of the function, or arguments that the class is constructed with."""


_RESERVED = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "tokenize"}
)


def _template_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    if wrong := sorted(_RESERVED & set(arguments)):
        raise ValueError(f"{wrong[0]}: Troupe sets this argument itself; leave it out")
    return arguments


TemplateArguments = Annotated[Arguments, AfterValidator(_template_arguments)]


def _prompts(at: Place) -> str:
    """The program of a workflow gets the prompt of the first role."""
    if at.config.environment.player:
        return f'environment.type = "{at.config.environment.type}" makes the prompts itself'
    program = at.config.workflow.type in PROGRAMS and at.name == at.config.team.order[0]
    return "" if program else plays_turns(at)


class Role(Section):
    """A role of the team."""

    effects: ClassVar[Effects] = (
        needs("prompt examples", _prompts)
        | needs("agent may_pass speaks", plays_turns)
        | {"chat_template_kwargs": renders_messages}
    )
    policy: str = Field(pattern=NAME_PATTERN)
    """Name of the policy that speaks for this role. Roles with the same policy share its weights."""
    prompt: str = ""
    """System prompt prepended to every observation; leave empty for none."""
    examples: tuple[str, ...] = Field((), max_length=64)
    """Few-shot examples after the system prompt: an observation, its answer, the next observation, and so on. Empty for none."""
    chat_template_kwargs: TemplateArguments = {}
    """Arguments of the model's chat template for this role's messages, e.g. enable_thinking = false for Qwen3."""
    agent: RoleAgent = RoleAgent()
    """A custom prompt function, called before every turn."""
    trained: bool = True
    """Whether this role's turns train its policy; false excludes them from training."""
    may_pass: bool = False
    """An empty answer is a pass: the state does not change and the role gets no reward. False passes it to the environment."""
    sampling: Sampling = Sampling()
    """Sampling settings of this role."""
    speaks: Speaks = Speaks()
    """The turns in which the role speaks."""

    @field_validator("examples")
    @classmethod
    def _every_example_has_an_answer(cls, examples: tuple[str, ...]) -> tuple[str, ...]:
        if len(examples) % 2:
            raise InvalidValue(
                f"has {len(examples)} entries",
                remedy="give pairs: an observation, its answer, the next observation, its answer",
            )
        return examples


def _all_policies_learn(at: Place) -> str:
    trained, period, length = at.config.trained_policies, at.section.alternate, iterations(at)
    never = trained[-(-length // period) :] if period else ()
    if not never:
        return ""
    return f"with {period} iterations each, run.iterations = {length} ends before {', '.join(never)} learns; set it lower"


class Team(Section):
    """The roles of the experiment and their turn order."""

    effects: ClassVar[Effects] = {
        "alternate": only_if(lambda at: len(at.config.trained_policies) > 1, "only one policy is trained"),
        "parallel": plays_turns,
    }
    orders: ClassVar[Effects] = {"alternate": _all_policies_learn}
    roles: dict[str, Role] = Field(min_length=1, max_length=64)
    """Roles by name, e.g. planner and executor."""
    alternate: int = Field(0, ge=0)
    """0: all policies learn in every iteration; n: they alternate, n iterations each, in the order of their roles."""
    turn_order: tuple[str, ...] = ()
    """Role names in the order in which they speak within a turn; empty means the order of `roles`."""

    parallel: tuple[str, ...] = ()
    """Roles that act simultaneously if adjacent in turn_order: all see the same state, then their answers are applied in that order."""

    @model_validator(mode="before")
    @classmethod
    def _store_turn_order(cls, tree: Any) -> Any:
        """Store the order explicitly, because a database may reorder the keys of a table."""
        if isinstance(tree, dict) and isinstance(tree.get("roles"), dict) and not tree.get("turn_order"):
            return tree | {"turn_order": tuple(tree["roles"])}
        return tree

    @cross_field
    def _turn_order_names_roles(self) -> Self:
        unknown = [name for name in self.turn_order if name not in self.roles]
        if unknown:
            raise ValueError(
                f"turn_order: names {', '.join(unknown)}, which is not a role; roles are {', '.join(self.roles)}"
            )
        silent = [name for name in self.roles if name not in self.turn_order]
        if silent:
            raise InvalidValue(f"turn_order: omits {', '.join(silent)}", remedy="add it, or remove that role")
        return self

    @cross_field
    def _parallel_names_roles(self) -> Self:
        unknown = [name for name in self.parallel if name not in self.roles]
        if unknown:
            raise ValueError(
                f"parallel: names {', '.join(unknown)}, which is not a role; roles are {', '.join(self.roles)}"
            )
        return self

    @cross_field
    def _somebody_speaks_in_every_turn(self) -> Self:
        if not any(role.speaks == Speaks() for role in self.roles.values()):
            raise InvalidValue(
                f"roles.{self.order[0]}.speaks: at least one role must speak in every turn",
                remedy="leave one's speaks at its default",
            )
        return self

    @property
    def order(self) -> tuple[str, ...]:
        """Role names in speaking order."""
        return self.turn_order

    @property
    def steps(self) -> tuple[tuple[tuple[int, str], ...], ...]:
        """Consecutive steps within a turn; see steps_of."""
        return steps_of(self.order, self.parallel)


def steps_of(order: Sequence[str], parallel: Sequence[str]) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Steps of a turn, each with (index in the order, role) of the roles that act simultaneously: neighbours that are all in `parallel`."""
    steps: list[list[tuple[int, str]]] = []
    for index, name in enumerate(order):
        together = index > 0 and {name, order[index - 1]} <= set(parallel)
        if together and all(name != other for _, other in steps[-1]):
            steps[-1].append((index, name))
        else:
            steps.append([(index, name)])
    return tuple(tuple(step) for step in steps)
