"""Where channels may not go: a real listener on loopback must hear nothing of any of them."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from typing import Any

import pytest
from django.test import Client

from training_core.errors import ConfigError
from webapp.accounts.models import User
from webapp.accounts.tokens import token_create
from webapp.common.outgoing import AddressRefused
from webapp.common.sealing import seal
from webapp.notifications.channel_addresses import SERVICES, channel_service
from webapp.notifications.channel_process import message_send
from webapp.notifications.models import Destination
from webapp.notifications.services import MOST, destination_make, destination_status, destination_try
from webapp.runs.models import Run

INNER = [
    "json://127.0.0.1:{port}/get?method=GET&+X-Evil=1", "json://localhost:{port}/x", "json://127.0.0.1:{port}/post",
    "json://127.0.0.1:{port}/d?method=DELETE", "form://127.0.0.1:{port}/f", "xml://127.0.0.1:{port}/x",
    "json://[::1]:{port}/six", "json://[::ffff:127.0.0.1]:{port}/mapped", "json://2130706433:{port}/decimal",
    "json://0x7f000001:{port}/hex", "json://127.1:{port}/short", "json://0.0.0.0:{port}/any",
    "fcm://p/#t?keyfile=http://127.0.0.1:{port}/keyfile", "mailto://a:b@example.org:{port}?smtp=127.0.0.1&to=c@example.org",
    "mailto://a:b@127.0.0.1:{port}?to=c@example.org", "gotify://127.0.0.1:{port}/tokentoken", "ntfy://127.0.0.1:{port}/topic",
    "matrix://u:p@127.0.0.1:{port}/room", "mmost://127.0.0.1:{port}/aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "apprise://127.0.0.1:{port}/token", "rsyslog://127.0.0.1:{port}", "mqtt://127.0.0.1:{port}/t", "irc://127.0.0.1:{port}/c",
]  # fmt: skip

NETWORK_CODES = ("json://127.0.0.1:{port}/get", "fcm:", "mailto:", "rsyslog:", "mqtt:", "irc:")
"""One address for each way in which plugins open connections; the others are extended tests."""


@pytest.fixture(autouse=True)
def _loopback() -> None:
    """Loopback is refused, unless a test names it; conftest.py allows it to the other tests."""


class Listener:
    """A server on loopback that counts connections; to each it answers with `answer`."""

    def __init__(self, host: str = "127.0.0.1", answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.bind((host, 0))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]
        self.answer = answer
        self.heard: list[bytes] = []
        self.ended = Event()
        self.thread = Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            with connection:
                if self.ended.is_set():
                    return
                connection.settimeout(1)
                self.heard.append(_first_words(connection))
                with suppress(OSError):  # the other side has left
                    connection.sendall(self.answer)

    def close(self) -> None:
        self.ended.set()
        with closing(socket.create_connection(self.socket.getsockname()[:2])):
            self.thread.join()
        self.socket.close()


def _first_words(connection: socket.socket) -> bytes:
    """What the client says; nothing where it waits for the server's greeting, as clients of mail servers do."""
    try:
        return connection.recv(65536)
    except OSError:
        return b""


@contextmanager
def listening(**settings: Any) -> Iterator[Listener]:
    listener = Listener(**settings)
    try:
        yield listener
    finally:
        listener.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


def make(user: User, run: Run, name: str, address: str) -> Destination:
    return destination_make(user, run.project, "channel", name, address)[0]


def stored(run: Run, address: str) -> Destination:
    """A channel as the version before the limits stored it."""
    channel = Destination(project=run.project, kind="channel", name=address[:80], label="x")
    channel.sealed_address = seal(address, "channel address")
    channel.save()
    return channel


@pytest.mark.parametrize("address", INNER)
def test_no_channel_reaches_loopback(run: Run, user: User, listener: Listener, address: str) -> None:
    address = address.format(port=listener.port)
    assert destination_try(user, stored(run, address)) is False
    assert listener.heard == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    [
        pytest.param(each, marks=() if each.startswith(NETWORK_CODES) else pytest.mark.extended)
        for each in INNER
    ],
)
def test_the_sending_process_itself_refuses_loopback(listener: Listener, address: str) -> None:
    """Without the list of kinds: what every plugin's own network code meets."""
    assert message_send(address.format(port=listener.port), ["10.0.0.0/8"], "t", "b") is False
    assert listener.heard == []


def test_redirects_into_the_network_are_not_followed(run: Run, user: User, settings: Any) -> None:
    with listening(host="::1") as inner:
        there = f"Location: http://[::1]:{inner.port}/followed".encode()
        answer = b"HTTP/1.1 307 Temporary Redirect\r\n" + there + b"\r\nContent-Length: 0\r\n\r\n"
        settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
        with listening(answer=answer) as outer:
            channel = make(user, run, "a", f"json://127.0.0.1:{outer.port}/redir")
            assert destination_try(user, channel) is False
            assert len(outer.heard) == 1 and inner.heard == []


@pytest.mark.extended
def test_a_network_that_is_named_is_reached(run: Run, user: User, listener: Listener, settings: Any) -> None:
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    for number, kind in enumerate(("json", "form", "xml"), 1):
        channel = make(user, run, kind, f"{kind}://localhost:{listener.port}/x")
        assert destination_try(user, channel) is True
        assert listener.heard[-1].startswith(b"POST /x ") and len(listener.heard) == number


@pytest.mark.extended
def test_a_mail_server_is_reached_in_a_named_network_alone(run: Run, user: User, settings: Any) -> None:
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with listening(answer=b"220 here\r\n421 closing\r\n") as mail:
        address = f"mailto://a:b@example.org:{mail.port}?smtp=127.0.0.1&to=c@example.org&mode=insecure"
        channel = make(user, run, "mail", address)
        destination_try(user, channel)
        assert len(mail.heard) == 1
        settings.TROUPE_WEBHOOK_NETWORKS = []
        destination_try(user, channel)
        assert len(mail.heard) == 1


def test_one_address_is_one_channel(run: Run, user: User, settings: Any) -> None:
    """Apprise itself would take several, the later ones unseen by the checks."""
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with listening() as first, listening() as second:
        two = f"json://127.0.0.1:{first.port}/, form://127.0.0.1:{second.port}/"
        destination_try(user, stored(run, two))
        assert second.heard == []


@pytest.mark.extended
def test_a_try_tells_nothing_of_what_is_there(run: Run, user: User, listener: Listener) -> None:
    answers = []
    for port in (listener.port, 9):
        channel = stored(run, f"json://localhost:{port}/x")
        assert destination_try(user, channel) is False
        answers.append(destination_status(channel))
    assert answers[0] == answers[1] and "not sent" in answers[0]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("syslog://", "kind syslog"),
        ("fcm://project/device?keyfile=/etc/passwd", "kind fcm"),
        ("json://example.org/x?method=GET", "remove method"),
        ("json://example.org/x?+X-Evil=1", "add headers"),
        ("json://example.org/x?-a=1", "parameters of the request"),
        ("json://example.org/x?:a=1", "fields of the body"),
        ("form://example.org/x?attach-as=a", "remove attach-as"),
        ("ntfy://example.org/t?attach=http://127.0.0.1/", "remove attach"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd", "remove template"),
        ("mailto://a:b@example.org?pgppub=/etc/passwd", "remove pgppub"),
        ("JSON://example.org/?METHOD=GET", "remove method"),
        ("json://127.0.0.1/x", "TROUPE_WEBHOOK_NETWORKS"),
        ("json://[::1]/x", "TROUPE_WEBHOOK_NETWORKS"),
    ],
)
def test_kinds_and_parameters_are_listed(address: str, said: str) -> None:
    with pytest.raises(AddressRefused, match=said):
        channel_service(address, [])


@pytest.mark.parametrize(
    "address",
    [
        "jsons://user:password@hooks.example.org/path", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "mailtos://a:b@example.org?to=c@example.org",
        "tgram://123456789:abcdefg_hijklmnop/12315544/", "ntfys://ntfy.example.org/topic?priority=high",
        "matrixs://user:pass@matrix.example.org/#room", "gotifys://example.org/tokentoken?priority=high",
    ],
)  # fmt: skip
def test_usual_addresses_are_taken(address: str) -> None:
    assert channel_service(address, []) in SERVICES


def test_a_stored_channel_of_a_refused_kind_says_so(run: Run, user: User, ada: Client) -> None:
    channel = stored(run, "syslog://")
    assert "kind syslog are not supported" in destination_status(channel)
    assert "kind syslog are not supported" in ada.get(f"/runs/{run.pk}/health/").content.decode()
    headers = {"authorization": f"Bearer {token_create(user, 'a', ['admin'])[1]}"}
    rows = json.loads(ada.get("/api/v1/projects/lab/channels/", headers=headers).content)["results"]
    assert "Remove the channel" in rows[0]["said"]


def test_a_project_has_a_bounded_number_of_channels(run: Run, user: User) -> None:
    for number in range(MOST):
        make(user, run, str(number), "json://example.org/x")
    with pytest.raises(ConfigError, match=f"at most {MOST}"):
        make(user, run, "one more", "json://example.org/x")
