"""Can the coder of the coding environment be paid without reading its task? Programs that look for the answers elsewhere."""

import shutil

import pytest

from tests.training_core.sandbox.tries import MEMORY
from training_core.llm.environments.coding import Coding, CodingEnvironment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

_LINE = "(x, a), (y, b) = list(enumerate(outputs))[:2]\nprint(a + (b - a) * (given - x) // (y - x))\n"
"""The tests' inputs are 0 and 1, and what is asked for is a straight line."""
_START = "import sys, os, gc, json, re\ngiven, outputs = int(input()), []\n"
FRAMES = (
    _START
    + """
frame = sys._getframe()
while frame:
    for value in frame.f_locals.values():
        for hit in re.findall(r"output\\W+(-?\\d+)", repr(value)): outputs.append(int(hit))
    frame = frame.f_back
"""
    + _LINE
)
OBJECTS = (
    _START
    + """
for each in gc.get_objects():
    if isinstance(each, (dict, list, tuple)) and 'output' in repr(each):
        outputs += [int(hit) for hit in re.findall(r"output\\W+(-?\\d+)", repr(each))]
"""
    + _LINE
)
REPORTS = (
    _START
    + MEMORY.replace("PATTERN", r"""rb'"o[k]", "(-?\\d+)'""")
    + "outputs = [int(re.findall(rb'-?[0-9]+', each)[0]) for each in found]\n"
    + _LINE
)
SOLUTIONS = (
    _START
    + MEMORY.replace("PATTERN", r"rb'n = int\(inpu[t]\(\)\) ; print\( [-+*n0-9() ]+ \)'")
    + "n = given\nprint(eval(sorted(found)[0].decode().split('print')[1]))\n"
)
DESCRIPTORS = (
    _START
    + """
for number in range(64):
    try:
        os.lseek(number, 0, 0)
        text = os.read(number, 100000)
        outputs += [int(hit) for hit in re.findall(rb"-?[0-9]+", text)]
    except OSError: pass
"""
    + _LINE
)
FOLDER = _START + "outputs = [int(open('/tmp/' + name).read()) for name in os.listdir('/tmp')]\n" + _LINE
QUIET = "import os\nos._exit(0)"
PATCHED = "import sys\nmain = sys.modules['__main__']\nmain._written = lambda: input()\nmain._run = lambda *all: ('ok', all[1], '')\n"


@pytest.mark.parametrize(
    "program", [FRAMES, OBJECTS, REPORTS, SOLUTIONS, DESCRIPTORS, FOLDER, QUIET, PATCHED],
    ids=["frames", "objects", "reports", "solutions", "descriptors", "folder", "quiet", "patched"],
)  # fmt: skip
def test_a_program_that_never_reads_its_task_solves_none(program: str) -> None:
    environment, won = CodingEnvironment(Coding(test_seconds=5.0), 0), 0
    for task in range(20):
        environment.reset(task, "train")
        environment.act("tester", "0 -> x\n1 -> x")  # the known solution runs on both
        environment.act("coder", f"```python\n{program}\n```")
        won += environment.success
    assert won == 0


def test_the_same_search_finds_a_solution_that_is_in_the_program() -> None:
    """The searching works: it is the isolation that leaves nothing to be found."""
    environment, won = CodingEnvironment(Coding(test_seconds=5.0), 0), 0
    for task in range(5):
        environment.reset(task, "train")
        environment.act(
            "coder", f"```python\nkept = {environment.problem.solution.encode()!r}\n{SOLUTIONS}\n```"
        )
        won += environment.success
    assert won == 5
