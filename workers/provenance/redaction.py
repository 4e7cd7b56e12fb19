"""Removes secrets from texts before they are stored or logged: the one list of what is a secret.

A secret is recognised by its own form (a key of a known service, a JSON Web Token, a private key), by its place (the header Authorization,
the user part of an address), or by the name before it. A name such as `password` is enough on a command line; a name such as `key`, which
code uses for much else, needs a value that looks random.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MASK = "[redacted]"
_PREFIXES = (
    r"hf_|sk-|[srp]k_(?:live|test)_|gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt)-|xox[abeoprs]-|xapp-|npm_|pypi-|dckr_pat_|nvapi-|gsk_|xai-|"
    r"r8_|pplx-|ya29\.|SG\.|tvly-|wandb_v1_|lsv2_|dapi|shp(?:at|ss)_"
)
"""Beginnings of keys of Hugging Face, OpenAI and Anthropic, Stripe, GitHub, GitLab, Slack, package registries and others."""
_STRONG = (
    r"password|passwd|passphrase|(?<![a-z])pass|pwd|secret|credentials?|"
    r"(?:api|access|private|secret|signing|encryption|account|master|license|auth|ssh|deploy)[_-]?key|"
    r"(?:access|auth|refresh|bearer|session|api|hf|hub|git|github|gitlab|wandb|slack|bot|login)[_-]?token|(?<=--)token"
)
_WEAK = r"key|token|auth|jwt|signature|sig"
_WORDS = rf"(?:(?P<strong>{_STRONG})|{_WEAK})"
_KNOWN = re.compile(rf"(?:\b(?:{_PREFIXES})|troupe_)(?P<value>[A-Za-z0-9_-]{{16,}}(?:\.[A-Za-z0-9_-]+)*)")
_OWN_FORMS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # Amazon
    r"|\bAIza[\w-]{35}"  # Google
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON Web Tokens
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[\s\S]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:(?:\s|\\n|[+-])*[A-Za-z0-9+/=]{16,})*)"
)
_PLACES = (
    re.compile(r"(?i)(\bauthorization[\"']?\s*[=:]\s*[\"']?(?:[a-z][\w-]*\s+)?)[^\s\"',;]{6,}()"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}()"),
    re.compile(r"(?i)(\b(?:set-)?cookie[\"']?:\s*)[^\r\n\"']{6,}()"),
    re.compile(r"(://[^/\s:@\"']*:)[^/\s@\"']+(@)"),
    re.compile(r"(?i)(\bhttps?://)(?!git@)[^/\s:@\"'?#]+(@)"),
    re.compile(r"((?:^|\s)(?:-u|--user|--proxy-user)[= ][\"']?[\w.@+-]+:)(?!\d+\b)[^\s\"']+()"),
)
"""Headers, addresses with a password or a token, and the option for both of curl."""
_NAMED = re.compile(
    rf"(?i)(?<![\w.-])(?P<head>(?P<dashes>-{{0,2}})[\w.-]{{0,60}}?{_WORDS}[\"']?(?::\s*[\w.\[\] |]{{1,40}}?(?=\s*=\s*[rbfu]*[\"']))?"
    r"(?P<sign>\s*[=:]\s*|[ \t]+))"
    r"(?:(?P<quote>[rbfu]{0,2}[\"'])(?P<quoted>[^\"'\n]{6,})(?=[\"'])|(?P<bare>[\w+/=.~%@!^*:-]{6,}))"
)
_NAME = re.compile(rf"(?i)-{{0,2}}[\w.-]{{0,60}}?{_WORDS}")
_HINT = re.compile(
    r"(?i)(?:pass|password|passwd|passphrase|pwd|secret|credentials?|key|token|auth|jwt|signature|sig)[\"']?(?:\s*[=:]|[ \t])"
)
"""The end of the names of `_NAMED`: a fast search, since each line of a run's output is looked through."""
_FOLDER = re.compile(r"[~.]{0,2}/")
_ORDINARY = re.compile(r"(?:[A-Za-z]+\d{0,4}|\d+)(?:[/._:~+-]+(?:[A-Za-z]+\d{0,4}|\d+))*[=:.]*")
"""Words with a number at their end, and numbers, with marks between them: names of metrics, paths, versions."""


def without_secrets(text: str) -> str:
    """Return the text with MASK in place of what looks like a secret. Lines stay lines, so that a diff remains one."""
    text = _PRIVATE_KEY.sub(_mask_lines, text)
    text = _KNOWN.sub(lambda match: MASK if _has_digit(match["value"]) else match[0], text)
    text = _OWN_FORMS.sub(MASK, text)
    for pattern in _PLACES:
        text = pattern.sub(rf"\1{MASK}\2", text)
    return _NAMED.sub(_mask_named, text) if _HINT.search(text) else text


def words_without_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with MASK in place of the values of options and fields whose names are those of secrets."""
    masked: list[str] = []
    option: re.Match[str] | None = None
    for word in words:
        name, sign, value = word.partition("=")
        if option and not word.startswith("-"):
            masked.append(MASK if _is_argument(option, word) else word)
            option = None
            continue
        named = _NAME.fullmatch(name)
        option = named if name.startswith("-") and not sign else None
        hide = named and sign and _is_argument(named, value)
        masked.append(f"{name}={MASK}" if hide else word)
    return masked


def values_without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a config of a program, with MASK in place of secrets, at any depth."""
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return values_without_secrets(value)
    if isinstance(value, list | tuple):
        return [_value(name, item) for item in value]
    if not isinstance(value, str):
        return value
    named = _NAME.fullmatch(name.replace("/", "."))
    return MASK if named and _is_argument(named, value) else without_secrets(value)


def _is_argument(named: re.Match[str], value: str) -> bool:
    """Whether the value of an option, or of a field, with the name of a secret is one."""
    if (
        not value
        or value.isdigit()
        or _FOLDER.match(value)
        or value.lower() in ("true", "false", "none", "null")
    ):
        return False
    return bool(named["strong"]) or _is_random(value) or re.fullmatch(r"[A-Za-z0-9]{16,}", value) is not None


def _mask_named(match: re.Match[str]) -> str:
    value, quote = match["quoted"] or match["bare"], match["quote"] or ""
    is_option, is_spaced = bool(match["dashes"]), not match["sign"].strip()
    if is_spaced and not is_option and not _is_random(value):
        return match[0]
    enough = match["strong"] and (quote or (is_option and not value.isdigit()) or _has_digit(value))
    secret = enough or _is_random(value)
    return f"{match['head']}{quote}{MASK}" if secret else match[0]


def _mask_lines(match: re.Match[str]) -> str:
    """MASK for each line, behind the mark that a diff has before it."""
    first, *lines = match[0].split("\n")
    return "\n".join([MASK, *(f"{line[:1] if line[:1] in ('+', '-', ' ') else ''}{MASK}" for line in lines)])


def _is_random(value: str) -> bool:
    has_letter = any(mark.isalpha() for mark in value)
    return len(value) >= 8 and has_letter and _has_digit(value) and not _ORDINARY.fullmatch(value)


def _has_digit(value: Iterable[str]) -> bool:
    return any(mark.isdigit() for mark in value)
