"""Removal of secrets from command lines and diffs, before they leave this machine."""

import re

MASK = "[redacted]"
SECRET_FILES = (
    ".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa*", "id_ed25519*", "*secret*", "*credential*",
    ".netrc", ".npmrc", ".pypirc",
)  # fmt: skip
"""Names of files that are left out of diffs."""
_NAME = r"[\w.-]*(?:api[_-]?key|access[_-]?key|token|secret|passwd|password)"
_PATTERNS = (
    re.compile(r"()\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|troupe_)[A-Za-z0-9_-]{16,}()"),
    re.compile(r"()\bAKIA[0-9A-Z]{16}\b()"),
    re.compile(rf"(?i)(\b{_NAME}[\"']?\s*[=:]\s*[\"'])[^\"'\n]{{6,}}([\"'])"),
    re.compile(rf"(?i)((?:^|\s)-{{0,2}}{_NAME}(?:=|[ ]))(?=[^\s\"']*\d)[^\s\"']{{8,}}()", re.MULTILINE),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}()"),
    re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)"),
)
"""Values of common services, quoted values of names such as `api_key`, unquoted ones with a digit, passwords in URLs."""


def without_secrets(text: str) -> str:
    """Return the text with values that look like secrets replaced by MASK."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{MASK}\2", text)
    return text
