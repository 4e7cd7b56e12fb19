"""What a person does about a finding: episodes to read, changes to try, and whether the run with these changes is better."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from webapp.health.models import Checked, Finding
from webapp.runs.models import ENDED_STATES, Run

Edits = dict[str, Any]
Tree = Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z_]\w{2,}")


def whose(key: str) -> str:
    """Return the policy or role of a metric's name; empty for one of the team."""
    start, _, rest = key.partition("/")
    return rest.rpartition("/")[0] if start in ("policy", "groups", "rollout") else ""


def _scaled(factor: float) -> Callable[[Tree, str], Edits]:
    """Multiply the learning rate of the policy, or of all policies for a finding of the team."""

    def edits(config: Tree, policy: str) -> Edits:
        made: Edits = {}
        for name, section in config["policies"].items():
            if policy in ("", name):
                for field in ("learning_rate", "final_learning_rate"):
                    made[f"policies.{name}.learner.{field}"] = float(
                        f"{section['learner'][field] * factor:.3g}"
                    )
        return made

    return edits


def _fewer_passes(config: Tree, policy: str) -> Edits:
    if config["policies"][policy]["learner"]["epochs"] > 1:
        return {f"policies.{policy}.learner.epochs": 1}
    return _scaled(1 / 3)(config, policy)


def _longer_answers(config: Tree, role: str) -> Edits:
    roles = {name: section for name, section in config["team"]["roles"].items() if role in ("", name)}
    return {
        f"team.roles.{name}.sampling.max_tokens": 2 * section["sampling"]["max_tokens"]
        for name, section in roles.items()
    }


TRIES: dict[str, Callable[[Tree, str], Edits]] = {
    "entropy_collapse": lambda config, _: {
        "algorithm.entropy_coefficient": max(2 * config["algorithm"]["entropy_coefficient"], 0.01)
    },
    "kl_blow_up": _scaled(1 / 10),
    "policy_shift": _scaled(1 / 3),
    "ratio_tails": _fewer_passes,
    "clip_fraction": _fewer_passes,
    "gradient_norm": _scaled(1 / 3),
    "not_a_number": _scaled(1 / 10),
    "success_fell": _scaled(1 / 10),
    "unchanged_policy": _scaled(100),
    "too_hard": lambda config, _: {"rollout.group_size": 2 * config["rollout"]["group_size"]},
    "truncation": _longer_answers,
    "recompilation": lambda _, policy: {f"policies.{policy}.learner.packed_attention": "mask"},
}
"""Changes to try first, by rule: of the run's config and of a policy or role. Rules whose remedy is no setting have none."""


def edits_to_try(finding: Finding) -> Edits:
    """Return the changes to try for a finding; none if its remedy is no setting, or its run's config has other fields."""
    make = TRIES.get(finding.rule)
    try:
        return make(finding.run.config, whose(finding.key)) if make else {}
    except (KeyError, TypeError, AttributeError):
        return {}


def episodes_to_read(finding: Finding) -> str:
    """Return a query of the transcripts that show a finding; empty if none do."""
    first, last = finding.first_step, finding.last_step
    figures = dict(finding.evidence.get("figures", []))
    role, time = whose(finding.key), f"iteration >= {first} and iteration <= {last}"
    error = _NAME.search(str(figures.get("commonest error", "")))
    queries = {
        "too_easy": f"{role}.group.variance = 0 and {time}",
        "too_hard": f"{role}.group.variance = 0 and {time}",
        "no_spread": f"{role}.group.variance = 0 and {time}",
        "truncation": f"{role or 'role'}.truncated and {time}",
        "overlong": f"truncated and {time}",
        "failed_episodes": f"error and {time}",
        "agent_errors": f'error ~ "{error[0] if error else ""}" and {time}',
        "return_rises_success_falls": f"success = false and return > {figures.get('return then', 0)} and iteration <= {last}",
        "length_hacking": f"tokens > {figures.get('tokens per episode', 0)} and {time}",
        "success_fell": f"kind = eval and success = false and iteration = {last}",
        "overfitting": f"kind = eval and success = false and iteration = {last}",
    } | dict.fromkeys(
        ("entropy_collapse", "kl_blow_up", "clip_fraction", "ratio_tails", "gradient_norm", "mismatch"), time
    )
    return queries.get(finding.rule, "")


@dataclass(frozen=True)
class Verdict:
    """Whether the changes that were made for a finding helped."""

    finding: Finding
    state: Literal["helped", "did not help", "too early"]
    why: str
    success: str
    """Success in both runs; empty without evaluations."""


def verdict_read(run: Run) -> Verdict | None:
    """Return whether a run that was forked, or launched again, for a finding has the finding too; None for other runs.

    It is too early before the step at which the finding was opened.
    """
    finding = run.findings_answered.select_related("run").defer("run__facts").order_by("-pk").first()
    if finding is None:
        return None
    opened = finding.last_step if finding.opened_step is None else finding.opened_step
    again = run.findings.filter(rule=finding.rule, key=finding.key).first()
    after, before = (one.headline.get("eval/success") for one in (run, finding.run))
    success = "" if None in (after, before) else f"Held-out success is {after:.3g}; it was {before:.3g}."
    if again is not None and again.state != Finding.State.RESOLVED:
        return Verdict(
            finding, "did not help", f"the finding is open again since step {again.first_step}", success
        )
    if run.iteration < opened:
        word = "ended at" if run.state in ENDED_STATES else "is at"
        why = f"the run {word} iteration {run.iteration}; the finding was opened at {opened}"
        return Verdict(finding, "too early", why, success)
    checked = Checked.objects.filter(run=run).first()
    nearest = (checked.measures if checked else {}).get(finding.rule, {}).get("nearest", {}).get("excess")
    why = "there was no such finding" if again is None else "the finding was opened again, and is resolved"
    if nearest is not None and again is None:
        why += f"; the value came to {nearest:.0%} of the threshold"
    return Verdict(finding, "helped", why, success)
