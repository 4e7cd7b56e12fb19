"""Errors, named by the boundary that was crossed.

TroupeError
├── ConfigError          the run config is wrong; carries one message per field path
├── EnvironmentFailure   an environment raised; its episode fails, the run goes on
├── SandboxFailure       there is no sandbox for the code that agents write
├── EngineFailure        generation failed
│   └── PromptRefused    one prompt cannot be answered; the others can
├── DataError            a conversation or sample from outside cannot be learnt from
├── RequestRefused       a request to the gateway cannot be answered
├── LearnerFailure       an update failed: its data, or every gradient, is no number
├── StalePolicy          data or weights of another version than the one asked for
├── CheckpointError      a checkpoint is missing, torn or of another shape
└── ModelError           a model could not be loaded
"""


class TroupeError(Exception):
    """Base of all errors that Troupe raises on purpose. The message tells the user what to do."""


class ConfigError(TroupeError):
    """A run config that cannot be run. `fields` maps dotted field paths to one message each."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields
        super().__init__("; ".join(f"{path}: {text}" if path else text for path, text in fields.items()))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[dict[str, str]]]:
        return type(self), (self.fields,)


class EnvironmentFailure(TroupeError):
    """An environment raised while it was reset, observed or stepped."""


class SandboxFailure(TroupeError):
    """Code that agents write cannot be run: nothing here can put up a sandbox."""


class BufferFailure(TroupeError):
    """Rollouts from outside do not come: the rollout buffer is away or refuses, or its generator has failed or ended."""


class StopRequested(TroupeError):
    """The run is asked to stop and leaves the collection under way: it waits for others outside, or must end at once."""


class EngineFailure(TroupeError):
    """An engine could not generate."""


class PromptRefused(EngineFailure):
    """One prompt cannot be answered: it is empty, too long, or has ids outside the model's vocabulary."""


class DataError(TroupeError):
    """A conversation or sample that came from outside cannot be learnt from."""


class RequestRefused(TroupeError):
    """A request to the gateway cannot be answered. `status` is HTTP's, `code` the OpenAI API's short name."""

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        self.status, self.code = status, code
        super().__init__(message)


class LearnerFailure(TroupeError):
    """A policy could not be updated: its data or its gradients are not finite."""


class StalePolicy(TroupeError):
    """Data or weights carry another policy version than the one asked for."""


class CheckpointError(TroupeError):
    """A checkpoint cannot be written or read."""


class ModelError(TroupeError):
    """A model or tokenizer cannot be loaded."""
