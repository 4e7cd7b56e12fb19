"""What a text says after its thought: reasoning models write `<think> ... </think>` before the answer that counts."""

import re

_ENDS = re.compile(r"</think(?:ing)?>|\[/THINK\]")
_BEGINS = re.compile(r"<think(?:ing)?>|\[THINK\]")


def after_thought(text: str) -> str:
    """What follows the last end of a thought. A thought that begins and does not end is left out; a text without one is all answer.

    >>> after_thought("<think>4? no</think>5")
    '5'
    """
    ends = list(_ENDS.finditer(text))
    said = text[ends[-1].end() :] if ends else text
    begins = _BEGINS.search(said)
    return said[: begins.start()] if begins else said
