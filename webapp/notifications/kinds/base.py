"""The interface of a kind of destination."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from training_core.errors import TroupeError
from webapp.notifications.models import Delivery


class NotDelivered(TroupeError):
    """The receiver did not accept an event. `code` is the status of its HTTP response, if there was one."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code


class Kind(ABC):
    """A kind of destination. Addresses contain secrets: messages of errors must not contain the address."""

    title: str
    default_events: tuple[str, ...]
    """Events of a destination for which none are selected."""
    signed = False
    """Whether a destination has a secret, shown once, that signs what is sent."""

    @abstractmethod
    def label(self, address: str) -> str:
        """Return the part of a new address that may be shown. Raises AddressRefused."""

    @abstractmethod
    def check(self, address: str) -> None:
        """Check a stored address against the present rules. Raises AddressRefused."""

    def accepts(self, facts: Mapping[str, Any]) -> bool:
        """Whether an event with these facts is for this kind."""
        return True

    @abstractmethod
    def send(self, delivery: Delivery) -> int | None:
        """Make one attempt; returns the status of an HTTP response. Raises TroupeError, OSError, the errors of httpcore."""
