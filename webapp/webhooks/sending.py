"""One attempt to deliver one event.

A receiver checks `X-Troupe-Signature`: "sha256=" and the hex HMAC-SHA256, under the webhook's secret, of
`X-Troupe-Timestamp`, a full stop, and the raw body; and that the timestamp is recent.
"""

import hashlib
import hmac
import json
import time
from typing import Any

import httpcore
from django.core.exceptions import ImproperlyConfigured

from training_core.errors import TroupeError
from webapp.common.outgoing import post
from webapp.common.sealing import unseal
from webapp.webhooks.models import Delivery

ADDRESS, SECRET = "webhook address", "webhook secret"
"""Purpose of the encrypted texts."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def delivery_try(delivery: Delivery) -> dict[str, Any]:
    """Return {"time", "code", "said", "seconds"}; code is None without a response, `said` is the reason. Never raises."""
    started, code, said = time.time(), None, ""
    try:
        code = _post(delivery, str(int(started)))
        said = "" if 200 <= code < 300 else "the receiver rejected it"
    except (TroupeError, ImproperlyConfigured) as error:
        said = str(error)
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        said = f"no response: {type(error).__name__}"
    return {"time": started, "code": code, "said": said[:300], "seconds": round(time.time() - started, 3)}


def _post(delivery: Delivery, timestamp: str) -> int:
    """Return the status of the response; its body is not read."""
    hook = delivery.webhook
    body = json.dumps(delivery.payload, ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Troupe",
        "X-Troupe-Event": delivery.event,
        "X-Troupe-Delivery": str(delivery.key),
        "X-Troupe-Timestamp": timestamp,
        "X-Troupe-Signature": signature(unseal(hook.sealed_secret, SECRET), timestamp, body),
    }
    return post(unseal(hook.sealed_address, ADDRESS), headers, body)
