"""State of a git repository: commit, branch, and the changes that are not committed."""

import base64
import hashlib
import os
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workers.provenance.redaction import without_secrets

SECRET_FILES = (
    ".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa*", "id_ed25519*", "*secret*", "*credential*",
    ".netrc", ".npmrc", ".pypirc",
)  # fmt: skip
"""Names of files that are left out of diffs."""
TIMEOUT = 10.0
"""Maximum seconds of one git command."""
MOST_DIFF = 512 << 10
"""Maximum bytes of a diff before compression; the rest is cut off."""
MOST_PACKED = 64 << 10
"""Maximum bytes of a compressed diff; a longer one is cut to a part that fits."""
MOST_NAMES = 100
"""Maximum number of names of changed or untracked files."""
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false")
_REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Variables that would make git read another repository, for example inside a hook."""


def repository_state(folder: Path, name: str = "") -> dict[str, Any]:
    """Return the state of the repository that contains a folder: {"name", "folder", "commit", "branch", "remote", "changed",
    "untracked", "more", "diff", "diff_bytes", "diff_sha256", "diff_cut", "left_out"}, or {"name", "folder", "note"} if there
    is none or git cannot read it.

    `diff` is the diff against the commit, zlib in base64, without binary files, untracked files and SECRET_FILES.
    """
    facts: dict[str, Any] = {"name": name or folder.name, "folder": str(folder)}
    try:
        root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
        facts |= {"name": name or root.name, "folder": str(root)} | _status(root)
        unchanged = not facts["commit"] or not facts["changed"]
        facts |= _no_diff() if unchanged else _diff(root)
    except FileNotFoundError:
        facts["note"] = "git is not installed"
    except subprocess.TimeoutExpired:
        facts["note"] = f"git did not answer within {TIMEOUT:g} s"
    except subprocess.CalledProcessError as error:
        text = (error.stderr or "").strip()
        no_repository = "not a git repository" in text
        facts["note"] = "not a repository" if no_repository else without_secrets(text[:300])
    return facts


def _status(root: Path) -> dict[str, Any]:
    lines = iter(_git(root, "status", "--porcelain=v2", "--branch", "-z").split("\0"))
    commit, branch, changed, untracked = "", "", [], []
    for line in lines:
        kind, _, rest = line.partition(" ")
        if line.startswith("# branch.oid "):
            commit = line.removeprefix("# branch.oid ")
        elif line.startswith("# branch.head "):
            branch = line.removeprefix("# branch.head ")
        elif kind == "?":
            untracked.append(rest)
        elif kind in ("1", "2", "u"):
            changed.append(rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])[-1])
            if kind == "2":
                next(lines, "")  # the former name
    return {
        "commit": "" if commit == "(initial)" else commit,
        "branch": "" if branch == "(detached)" else branch,
        "remote": _remote(root),
        "changed": changed[:MOST_NAMES],
        "untracked": untracked[:MOST_NAMES],
        "more": max(0, len(changed) - MOST_NAMES) + max(0, len(untracked) - MOST_NAMES),
    }


def _remote(root: Path) -> str:
    """The address of `origin` without a password; empty if there is none."""
    try:
        return without_secrets(_git(root, "config", "--get", "remote.origin.url").strip())
    except subprocess.CalledProcessError:
        return ""


def _diff(root: Path) -> dict[str, Any]:
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty")
    outside = [f":(exclude,icase,glob)**/{pattern}" for pattern in SECRET_FILES]
    inside = [f":(icase,glob)**/{pattern}" for pattern in SECRET_FILES]
    whole = _git(root, "diff", "HEAD", *options, "--", ".", *outside)
    secret = _git(root, "diff", "HEAD", "--name-only", "-z", "--", *inside).split("\0")
    binary = [
        line.split("\t", 2)[2]
        for line in _git(root, "diff", "HEAD", "--numstat", "--no-renames", "-z", "--", ".", *outside).split(
            "\0"
        )
        if line.startswith("-\t-\t")
    ]
    packed, bytes_, is_cut = packed_diff(without_secrets(whole))
    return {
        "diff": packed,
        "diff_bytes": bytes_,
        "diff_sha256": hashlib.sha256(whole.encode()).hexdigest() if whole else "",
        "diff_cut": is_cut,
        "left_out": [*filter(None, secret), *binary][:MOST_NAMES],
    }


def _no_diff() -> dict[str, Any]:
    return {"diff": "", "diff_bytes": 0, "diff_sha256": "", "diff_cut": False, "left_out": []}


def packed_diff(text: str) -> tuple[str, int, bool]:
    """Return (zlib in base64, bytes of the whole text, whether it was cut at the end of a line)."""
    content = text.encode()
    limit = min(len(content), MOST_DIFF)
    while True:
        part = content[:limit]
        if limit < len(content):
            part = part[: part.rfind(b"\n") + 1]
        packed = zlib.compress(part, 9)
        if len(packed) <= MOST_PACKED:
            return base64.b64encode(packed).decode() if content else "", len(content), limit < len(content)
        limit = min(limit - 1, limit * MOST_PACKED // len(packed))


def unpacked_diff(packed: str) -> str:
    """Return the text of `packed_diff`. Raises ValueError for other data."""
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), MOST_DIFF)
    except zlib.error as error:
        raise ValueError(f"not a compressed diff: {error}") from error
    return content.decode(errors="replace")


def repositories(folders: Iterable[tuple[str, Path]]) -> list[dict[str, Any]]:
    """Return the states of the repositories of (name, folder), each repository once."""
    states: dict[str, dict[str, Any]] = {}
    for name, folder in folders:
        roots = {Path(root) for root in states if "commit" in states[root]}
        if not roots & {folder, *folder.parents}:
            state = repository_state(folder, name)
            states.setdefault(state["folder"], state)
    return list(states.values())


def _git(folder: Path, *words: str) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
    return subprocess.run(
        [*_GIT, "-C", str(folder), *words],
        env=variables | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True, text=True, errors="replace", check=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip
