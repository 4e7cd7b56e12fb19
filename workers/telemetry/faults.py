"""Faults for people: one sentence that states what is wrong, and one that states what to do.

`fault_of` converts an exception, `fault_in` a message. An error of Troupe has both as fields; an error of a library is
recognised by its class, its number or its words, and has the remedy of RULES.
"""

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from training_core.errors import Advice, ConfigError, ModelError, TroupeError

FAILURE = "failed: "
"""Prefix of the line in which a driver prints why it failed."""
LOST = "lost: "
"""Prefix of this line if another attempt may succeed."""
LONGEST_REASON = 2000
"""Maximum characters of a reason. The full text is in the run's log."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK_LINE = re.compile(
    r"^Traceback \(most recent call last\):$|^\s*ray::|^\s+File \".+\", line \d+", re.MULTILINE
)
_SEED = re.compile(r"seed \d+  ")
_RAISED = re.compile(r"^(?:\w+\.)*[A-Z]\w*: ?", re.MULTILINE)
LONGEST = 400
"""Maximum characters of a sentence."""
REMEDY = "Remedy: "
"""What precedes the remedy in a printed failure."""
_TRACEBACK = "Open the traceback in the run's log; it names the line that raised the error."
_OF_CLASS = {
    "ConfigError": "Correct this field, then launch again.",
    "ModelError": "Check policies.*.model: it needs the files of a whole Hugging Face model.",
    "CheckpointError": "Resume from another checkpoint.",
    "LearnerFailure": "Resume from an earlier checkpoint with a lower learning rate.",
}
"""Remedies of errors that state none."""


@dataclass(frozen=True)
class Fault:
    """What is wrong, and what to do. Both are sentences of at most LONGEST characters; the remedy may be empty."""

    cause: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}".strip()

    @property
    def printed(self) -> str:
        """One line of a log, from which `printed_failure` takes both again."""
        return f"{self.cause} {REMEDY}{self.remedy}" if self.remedy else self.cause


@dataclass(frozen=True)
class _Rule:
    """Recognises an error of a library: by a class's name, or else by the words of its message."""

    names: frozenset[str]
    words: re.Pattern[str] | None
    numbers: frozenset[int]
    cause: Callable[[str], str]
    remedy: str

    def fits(self, error: BaseException) -> bool:
        named = self.names.intersection(base.__name__ for base in type(error).__mro__)
        numbered = isinstance(error, OSError) and error.errno in self.numbers
        return bool(named or numbered or (self.words and self.words.search(str(error))))


def _rule(cause: str, remedy: str, *names: str, words: str = "", numbers: tuple[int, ...] = ()) -> _Rule:
    """A rule; `cause` ends in "{}" if the error's message belongs to it."""
    pattern = re.compile(words, re.IGNORECASE) if words else None
    return _Rule(frozenset(names), pattern, frozenset(numbers), cause.format, remedy)


RULES: dict[str, _Rule] = {
    "device memory": _rule(
        "The GPU is out of memory: {}",
        "Lower policies.*.learner.micro_batch_tokens, rollout.group_size or the length of answers, use "
        'policies.*.learner.precision = "bf16", or give the policy more GPUs.',
        "OutOfMemoryError",
        words=r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED",
    ),
    "host memory": _rule(
        "The machine is out of memory: {}",
        "Lower resources.environment_workers, resources.environments_per_worker or rollout.tasks, use a smaller model, or use a "
        "machine with more memory.",
        "MemoryError",
        words=r"DefaultCPUAllocator: can't allocate memory|cannot allocate memory",
        numbers=(errno.ENOMEM,),
    ),
    "disk": _rule(
        "The disk is full: {}",
        "Free space on this disk, for example by deleting old checkpoints, then resume the run.",
        words=r"no space left on device|\(os error 28\)",
        numbers=(errno.ENOSPC, errno.EDQUOT),
    ),
    "file size": _rule(
        "A file exceeds the size limit of the process: {}",
        "Raise the limit (ulimit -f unlimited) for the processes of Troupe, then resume the run.",
        words=r"\(os error 27\)",
        numbers=(errno.EFBIG,),
    ),
    "port": _rule(
        "The port is in use: {}",
        "End the other program, or choose another port.",
        words=r"address already in use",
        numbers=(errno.EADDRINUSE,),
    ),
    "device": _rule(
        "No CUDA device is visible to the worker: {}",
        "Set policies.*.devices.rollout_gpus and update_gpus to 0, or use a machine with an NVIDIA GPU and its driver.",
        words=r"no CUDA GPUs are available|found no NVIDIA driver|not compiled with CUDA|no CUDA-capable device",
    ),
    "hub": _rule(
        "The model hub cannot be reached: {}",
        "Connect the machine of the workers to huggingface.co, or set policies.*.model to a local folder.",
        *("LocalEntryNotFoundError", "OfflineModeIsEnabled"),
    ),
    "package": _rule(
        "A package is missing on the machine of the workers: {}",
        "Install it there, or add its folder to PYTHONPATH, then launch again.",
        *("ModuleNotFoundError",),
    ),
}
"""Known errors of libraries and of the operating system; the first rule that fits counts."""


def fault_of(error: BaseException) -> Fault:
    """The fault behind an exception: of the innermost TroupeError among its causes, else of the innermost library error that RULES has."""
    links = list(_links(error))
    own = next((link for link in reversed(links) if isinstance(link, TroupeError)), None)
    of_library = next((fault for link in reversed(links) if (fault := _of_library(link))), None)
    if own is None:
        return of_library or Fault(sentence(f"{type(links[-1]).__name__}: {links[-1]}"), _TRACEBACK)
    fault = fault_in(own.advice)
    if fault.remedy:
        return fault
    usual = next(
        (_OF_CLASS[base.__name__] for base in type(own).__mro__ if base.__name__ in _OF_CLASS), _TRACEBACK
    )
    return Fault(fault.cause, of_library.remedy if of_library else usual)


def has_traceback(error: BaseException) -> bool:
    """Whether a traceback tells more than the error's message: not if a config names what does not exist or is in use, or a model
    for which there is a remedy.
    """
    first, *causes = _links(error)
    if isinstance(first, ModelError) and first.advice.remedy:
        return False
    return not isinstance(first, ConfigError) or not all(
        isinstance(link, ConfigError | ModuleNotFoundError | OSError) for link in causes
    )


def fault_in(text: str) -> Fault:
    """A message as a fault: an Advice states its remedy, another text has none."""
    advice = Advice.of(text)
    return Fault(sentence(advice.cause), sentence(advice.remedy))


def _links(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, outermost first. Ray keeps an actor's error in `cause`."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        inner = getattr(link, "cause", None)
        if isinstance(inner, BaseException):  # the text of the outer one is a traceback
            link = inner
            continue
        yield link
        link = link.__cause__


def _of_library(error: BaseException) -> Fault | None:
    for rule in RULES.values():
        if rule.fits(error):
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            return Fault(sentence(rule.cause(first.partition(". ")[0])), rule.remedy)
    return None


def sentence(text: str) -> str:
    """The text as one bounded sentence: capital letter, full stop. A word that is a name keeps its letters."""
    words = " ".join(reason(text).split()).rstrip(" ;,:")
    if not words:
        return ""
    if len(words) > LONGEST - 1:
        return words[: LONGEST - 1].rstrip() + "…"
    first = words.split()[0].rstrip(",.;:")
    words = words[0].upper() + words[1:] if first.isalpha() and first.islower() else words
    return words if words[-1] in ".!?…" else f"{words}."


def plain(text: str) -> str:
    """The text without terminal codes and invisible characters."""
    return _UNSEEN.sub("", _CODES.sub("", text.replace("\r\n", "\n")))


def reason(text: str) -> str:
    """An error as a reason: plain text of at most LONGEST_REASON characters; of a traceback only its last message."""
    message = plain(text).strip()
    if _TRACEBACK_LINE.search(message):
        raised = list(_RAISED.finditer(message))
        if raised:
            message = message[raised[-1].start() :].strip()
    return message if len(message) <= LONGEST_REASON else message[: LONGEST_REASON - 1].rstrip() + "…"


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


def printed_failure(log: str) -> tuple[Fault | None, bool]:
    """The last failure that a driver printed to its job's log, in case it could not report it (full disk), and whether another
    attempt may succeed. Without such a line it is None, and another attempt may succeed.
    """
    lines = [line for line in plain(log).splitlines() if line.startswith((FAILURE, LOST))]
    if not lines:
        return None, True
    prefix = LOST if lines[-1].startswith(LOST) else FAILURE
    cause, _, remedy = lines[-1].removeprefix(prefix).partition(f" {REMEDY}")
    return Fault(sentence(cause), sentence(remedy)), prefix == LOST


def log_text(level: str, source: str, message: str) -> str:
    """Return the message; in front of it, a level other than info and output, and a source other than the driver."""
    origin = " ".join(word for word in (level, source) if word not in ("info", "output", "driver"))
    return f"{origin}: {message}" if origin else message
