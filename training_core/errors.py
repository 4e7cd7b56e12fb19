"""Errors, named by the boundary that was crossed.

TroupeError
├── ConfigError          the run config is invalid; has one message per field path
├── InvalidValue         a check of a config's section fails; becomes a ConfigError
├── EnvironmentFailure   an environment raised; its episode fails, the run continues
├── SandboxFailure       no sandbox is available for the code that agents write
├── EngineFailure        generation failed
│   └── PromptRefused    one prompt cannot be answered; others can
│       └── PromptTooLong    prompts leave no room for an answer in the model's context
├── NoReward             a reward function does not apply to an answer, which is left out
├── DataError            an external conversation or sample cannot be used for training
├── RequestRefused       a request to the gateway cannot be answered
├── LearnerFailure       an update failed: its data, or every gradient, is not finite
├── StalePolicy          data or weights of another version than the requested one
├── CheckpointError      a checkpoint is missing, damaged or of another shape
└── ModelError           a model could not be loaded
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

_OF_REQUESTS = (400, 413, 422)
"""HTTP statuses that state that a request is wrong, which may be due to the policy's answers."""
_CONNECTIONS = ("TransportError", "ClientConnectionError", "APIConnectionError")
"""Errors of connections by name, because clients differ: httpx and httpx2, aiohttp, OpenAI's and Anthropic's."""


class Advice(str):
    """A message that states a cause and a remedy, which may be empty. As a text it is both, joined by ";", or by the cause's last sign."""

    cause: str
    remedy: str

    def __new__(cls, cause: str, remedy: str = "") -> Self:
        joint = " " if cause.endswith((".", ":")) else "; "
        advice = super().__new__(cls, f"{cause}{joint}{remedy}" if remedy else cause)
        advice.cause, advice.remedy = cause, remedy
        return advice

    @classmethod
    def of(cls, message: str) -> "Advice":
        """The message itself, or a cause without a remedy."""
        return message if isinstance(message, Advice) else Advice(message)

    def after(self, words: str) -> "Advice":
        """The same remedy, and a cause that begins with `words`."""
        return Advice(words + self.cause, self.remedy)


class TroupeError(Exception):
    """Base of all errors that Troupe raises itself. Its text has the cause and the remedy, `advice` has both apart."""

    def __init__(self, message: str = "", *, remedy: str = "") -> None:
        super().__init__(Advice(message, remedy) if remedy else message)

    @property
    def advice(self) -> Advice:
        """Cause and remedy; the remedy is empty if the error was raised without one."""
        return Advice.of(self.args[0])


class ConfigError(TroupeError):
    """An invalid run config. `fields` maps dotted field paths to one message each, an Advice where there is a remedy.

    `remedy` is that of a single field.
    """

    def __init__(self, fields: Mapping[str, str], *, remedy: str = "") -> None:
        self.fields = {path: Advice(text, remedy) if remedy else text for path, text in fields.items()}
        super().__init__("; ".join(f"{path}: {text}" if path else text for path, text in self.fields.items()))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[dict[str, str]]]:
        return type(self), (self.fields,)

    @property
    def advice(self) -> Advice:
        """Cause and remedy of the first field, and the number of the others."""
        path, text = next(iter(self.fields.items()))
        if others := len(self.fields) - 1:
            path = f"{others + 1} fields are wrong, {path} and {others} other{'s' * (others > 1)}"
        return Advice.of(text).after(f"{path}: " if path else "")

    def below(self, path: str) -> "ConfigError":
        """The same error, with fields relative to the section at `path` made absolute."""
        return ConfigError({f"{path}.{field}": text for field, text in self.fields.items()})


class InvalidValue(TroupeError, ValueError):
    """A check of a config's section fails. The ConfigError has its advice, at the path that precedes ":" in the message."""


class EnvironmentFailure(TroupeError):
    """An environment raised on reset, observation or step."""


class SandboxFailure(TroupeError):
    """Code that agents write cannot run: no sandbox can be started."""


class BufferFailure(TroupeError):
    """No rollouts arrive: the rollout buffer is unreachable or refuses requests, or its generator has failed or ended."""


class StopRequested(TroupeError):
    """A stop request ends the running collection: it waits for external programs, or must end immediately."""


class EngineFailure(TroupeError):
    """An engine could not generate."""


class PromptRefused(EngineFailure):
    """One prompt cannot be answered: it is empty, too long, or has ids outside the model's vocabulary."""


class PromptTooLong(PromptRefused):
    """Prompts leave no room for an answer in the model's context. `numbers` are their indices in the call."""

    def __init__(self, message: str, numbers: Sequence[int] = (0,), *, remedy: str = "") -> None:
        self.numbers = tuple(numbers)
        super().__init__(message, remedy=remedy)


class NoReward(TroupeError):
    """A reward function returned None: it does not apply to the answer."""


class DataError(TroupeError):
    """External data cannot be used for training: a file, a conversation or a sample."""


class RequestRefused(TroupeError):
    """A request to the gateway cannot be answered. `status` is the HTTP status, `code` the OpenAI API's error code."""

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        self.status, self.code = status, code
        super().__init__(message)


class LearnerFailure(TroupeError):
    """A policy could not be updated: its data or its gradients are not finite."""


class StalePolicy(TroupeError):
    """Data or weights have another policy version than the requested one."""


class CheckpointError(TroupeError):
    """A checkpoint cannot be written or read."""


class ModelError(TroupeError):
    """A model or tokenizer cannot be loaded."""


def import_cause(error: ImportError) -> str:
    """Why an import failed: the package that is not installed, or the first line of another cause, such as a missing library."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the package {error.name.partition('.')[0]} is not installed"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_infrastructure(error: BaseException) -> bool:
    """Whether an exception, or one of its causes, is not due to a policy's answers."""
    return any(
        isinstance(link, OSError | MemoryError | ImportError | TroupeError)
        or any(kind.__name__ in _CONNECTIONS for kind in type(link).__mro__)
        or _status(link) not in (None, *_OF_REQUESTS)
        for link in links(error)
    )


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error of a client library, if it has one."""
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    return status if isinstance(status, int) else None


def links(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and the parts of groups."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting.append(link.__cause__ if link.__suppress_context__ else link.__context__)
        waiting.extend(link.exceptions if isinstance(link, BaseExceptionGroup) else ())
