"""Reasons that people read: plain text of a bounded length, whatever a library put into its error."""

import re

FAILURE = "failed: "
"""What a driver prints before the sentence that says why it failed."""
LONGEST = 2000
"""Characters of a reason. The whole text is in the run's log."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = re.compile(
    r"^Traceback \(most recent call last\):$|^\s*ray::|^\s+File \".+\", line \d+", re.MULTILINE
)
_RAISED = re.compile(r"^(?:\w+\.)*[A-Z]\w*: ?", re.MULTILINE)


def plain(text: str) -> str:
    """The text without terminal codes and characters that cannot be seen."""
    return _UNSEEN.sub("", _CODES.sub("", text.replace("\r\n", "\n")))


def reason(text: str) -> str:
    """What is told of an error: of a traceback its last message, in plain characters, at most LONGEST of them."""
    said = plain(text).strip()
    if _TRACEBACK.search(said):
        raised = list(_RAISED.finditer(said))
        if raised:
            said = said[raised[-1].start() :].strip()
    return said if len(said) <= LONGEST else said[: LONGEST - 1].rstrip() + "…"


def printed_failure(log: str) -> str:
    """The last failure that a driver has printed to its job's log; empty where there is none. On a full disk it cannot report it."""
    lines = [line for line in plain(log).splitlines() if line.startswith(FAILURE)]
    return lines[-1].removeprefix(FAILURE).strip() if lines else ""
