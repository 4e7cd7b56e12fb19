"""Pages and API addresses that tests/benchmarks/scale.py measures."""

from tests.benchmarks.scale_fill import DRAWN_RUNS, SERIES, WORDS
from webapp.checkpoints.models import Checkpoint
from webapp.transcripts.models import Episode

Address = tuple[str, str, dict[str, str]]
OWN = (
    "progress,run.seed,algorithm.type,eval/success:max,policy/planner/kl,policy/planner/entropy,owner,created"
)
FIRST = ",".join(f"section_0/group_{number // 20}/metric_{number}" for number in range(50, 90))
LONG = ",".join(f"train/series_{number}" for number in range(SERIES))
TABLE: dict[str, dict[str, str]] = {
    "newest first": {},
    "page 900": {"page": "900"},
    "words": {"q": "run 77"},
    "by state": {"state": "failed"},
    "by config": {"filter": "algorithm.type = at_grpo and run.seed < 3"},
    "by metric": {"filter": "eval/success >= 0.9 and state = finished"},
    "ordered by success": {"sort": "-eval/success"},
    "ordered by a metric's best": {"columns": OWN, "sort": "-policy/planner/kl:max"},
    "ordered by config": {"columns": OWN, "sort": "run.seed"},
    "own columns": {"columns": OWN},
    "by note": {"filter": "note ~ NOTE"},
    "families": {"group": "family"},
    "families, own columns": {"group": "family", "columns": OWN},
    "with charts": {"charts": "1"},
}
"""Queries of the runs table."""
SEARCHES: dict[str, dict[str, str]] = {
    "no words": {},
    "one episode": {"q": "needle"},
    "a rare word": {"q": WORDS[-1]},
    "a middling word": {"q": WORDS[40]},
    "a word in nearly all": {"q": "right"},
    "a phrase": {"q": '"right right"'},
    "a phrase in none": {"q": f'"{WORDS[-1]} {WORDS[40]} {WORDS[-1]}"'},
    "two frequent words as a phrase in none": {"q": '"goal left goal left"'},
    "a word in none": {"q": "nobodysaidthis"},
    "one letter": {"q": "a"},
    "a prefix": {"q": "alra1*"},
    "a short prefix": {"q": "a*"},
    "all but a word": {"q": f"right -{WORDS[0]}"},
    "only an excluded word": {"q": "-right"},
    "two frequent words": {"q": "right left"},
    "frequent, role and reward": {"q": "right", "role": "executor", "reward_min": "1.4"},
    "frequent, reward in none": {"q": "right", "reward_min": "1000"},
    "frequent, early iterations": {"q": "right", "iteration_max": "3"},
    "frequent, failed": {"q": "right", "outcome": "failed"},
    "frequent, version": {"q": "right", "policy": "planner", "version": "3"},
    "middling, unsolved, role": {"q": WORDS[40], "outcome": "unsolved", "role": "planner"},
    "rare, evaluations": {"q": WORDS[-1], "kind": "eval"},
    "no words, reward in none": {"reward_min": "1000"},
    "no words, truncated": {"truncated": "true"},
    "query of a role's reward": {"query": "planner.reward > 1.4 and turns >= 3"},
}
"""Searches of transcripts."""
TABS = (
    "overview/", "curves/", "transcripts/", "transcripts/table/", "probes/", "timeline/", "health/", "checkpoints/", "artifacts/",
    "logs/", "config/",
)  # fmt: skip
SITE = (
    "/experiments/new/?preset=plan_path_duo", "/experiments/sweeps/", "/experiments/sweeps/new/", "/jobs/", "/reports/", "/artifacts/",
    "/cluster/", "/account/projects/", "/account/projects/lab/members/", "/account/projects/lab/quotas/", "/account/projects/lab/audit/",
    "/account/projects/lab/webhooks/", "/account/tokens/", "/docs/",
)  # fmt: skip


def addresses(runs: int) -> list[Address]:
    """Return (name, path, query) of everything that is measured."""
    found: list[Address] = [(f"runs table, {name}", "/runs/", query) for name, query in TABLE.items()]
    found += [
        ("API runs", "/api/v1/runs/", {}),
        ("API runs, own columns and order", "/api/v1/runs/", {"columns": OWN, "sort": "-run.seed"}),
        ("API families", "/api/v1/families/", {}),
        ("API filter completion", "/api/v1/filter/complete/", {"text": "eval"}),
        ("API columns completion", "/api/v1/columns/complete/", {"text": "eval"}),
    ]
    for run in ("fixed", "large"):
        found += [(f"{run}: {tab}", f"/runs/{run}/{'' if tab == 'overview/' else tab}", {}) for tab in TABS]
        parts = ("", "episodes/", "logs/", "marks/", "cost/", "timeline/")
        found += [(f"{run}: API {part}", f"/api/v1/runs/{run}/{part}", {}) for part in parts]
        pk = str(Episode.objects.filter(run=run, body__isnull=False).order_by("-pk")[0].pk)
        found += [
            (f"{run}: episode {part}", f"/runs/{run}/episodes/{pk}/{part}", {}) for part in ("", "tree/")
        ]
        found += [
            (f"{run}: API curve of episodes", f"/api/v1/runs/{run}/episodes/curve/", {"query": "turns > 2"})
        ]
    found += [(f"search, {name}", "/runs/large/transcripts/", query) for name, query in SEARCHES.items()]
    found += [(f"API search, {name}", "/api/v1/runs/large/episodes/", query) for name, query in SEARCHES.items()]  # fmt: skip
    found += [
        ("one long series", "/api/v1/runs/long/series/", {"keys": "train/series_0"}),
        (f"{SERIES} long series", "/api/v1/runs/long/series/", {"keys": LONG}),
        ("long: curves/", "/runs/long/curves/", {}),
        ("long: overview/", "/runs/long/", {}),
        ("wide: overview/", "/runs/wide/", {}),
        ("wide: curves/", "/runs/wide/curves/", {}),
        ("wide: curves/, search", "/runs/wide/curves/", {"q": "metric_77"}),
        ("wide: API keys", "/api/v1/runs/wide/series/", {}),
        ("wide: first charts", "/api/v1/runs/wide/series/", {"keys": FIRST}),
    ]  # fmt: skip
    drawn = min(runs, DRAWN_RUNS)
    few = ",".join(f"r{number:07}" for number in range(1, min(runs, 500) + 1))
    choices = {"500 runs by seed": {"runs": few}, f"{drawn} runs by seed": {"filter": "name ~ run"}}
    for name, choice in choices.items():
        query = {**choice, "by": "run.seed", "key": "eval/success"}
        found += [
            (f"API curves, {name}", "/api/v1/compare/curves/", query),
            (f"compare, {name}", "/compare/", query),
        ]
    families = {"filter": "name ~ run", "by": "family", "key": "eval/success"}
    found.append((f"API curves, {drawn} runs by family", "/api/v1/compare/curves/", families))
    found += [(path.partition("?")[0], path, {}) for path in SITE]
    if point := Checkpoint.objects.filter(run="fixed").first():
        found += [("API lineage", "/api/v1/runs/fixed/lineage/", {"checkpoint": point.path})]
    return found
