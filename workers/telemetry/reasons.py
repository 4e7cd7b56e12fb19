"""Failure reasons for people: plain text of bounded length, from any library's error."""

import re

FAILURE = "failed: "
"""Prefix of the line in which a driver prints why it failed."""
LOST = "lost: "
"""Prefix of this line if another attempt may succeed."""
LONGEST = 2000
"""Maximum characters of a reason. The full text is in the run's log."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = re.compile(
    r"^Traceback \(most recent call last\):$|^\s*ray::|^\s+File \".+\", line \d+", re.MULTILINE
)
_SEED = re.compile(r"seed \d+  ")
_RAISED = re.compile(r"^(?:\w+\.)*[A-Z]\w*: ?", re.MULTILINE)


def plain(text: str) -> str:
    """The text without terminal codes and invisible characters."""
    return _UNSEEN.sub("", _CODES.sub("", text.replace("\r\n", "\n")))


def reason(text: str) -> str:
    """An error as a reason: plain text of at most LONGEST characters; of a traceback only its last message."""
    message = plain(text).strip()
    if _TRACEBACK.search(message):
        raised = list(_RAISED.finditer(message))
        if raised:
            message = message[raised[-1].start() :].strip()
    return message if len(message) <= LONGEST else message[: LONGEST - 1].rstrip() + "…"


def seed_mark(seed: int) -> str:
    """The beginning of a seed's lines in the output of a process that trains several."""
    return f"seed {seed}  "


def seed_output(log: str, seed: int) -> str:
    """The output of a process that trains several seeds, without the lines of the other ones; the own lines are not marked."""
    own = seed_mark(seed)
    return "\n".join(
        line.removeprefix(own)
        for line in plain(log).splitlines()
        if line.startswith(own) or not _SEED.match(line)
    )


def printed_failure(log: str) -> tuple[str, bool]:
    """The last failure that a driver printed to its job's log, in case it could not report it (full disk), and whether another
    attempt may succeed. Without such a line the text is empty, and another attempt may succeed.
    """
    lines = [line for line in plain(log).splitlines() if line.startswith((FAILURE, LOST))]
    if not lines:
        return "", True
    prefix = LOST if lines[-1].startswith(LOST) else FAILURE
    return lines[-1].removeprefix(prefix).strip(), prefix == LOST
