"""The estimate next to the form, requested by htmx when fields change."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from training_core.errors import ConfigError
from webapp.common.tones import SHARED, policy_tones
from webapp.experiments.estimates import LONGEST_PROMPT, Appraisal, appraise
from webapp.experiments.views import posted_draft
from webapp.runs.configs import check_runs_visible
from workers.sizing.estimates import PROMPT_TOKENS, WorkerMemory
from workers.sizing.memory_fit import KINDS, PARTS

BAR = 100.0
"""Width of a bar in the units of its drawing."""


@require_POST
def experiment_estimate(request: HttpRequest) -> HttpResponse:
    """Return the estimate of the form's experiment (a fragment), or a message if the form has errors."""
    draft, error = posted_draft(request)
    try:
        if draft.config is not None:
            check_runs_visible(request.user, draft.config)  # the estimate reads its models
    except ConfigError as refused:
        error = str(refused)
    if draft.config is None or error:
        return render(request, "experiments/_estimate.html", {"found": None})
    prompt = _prompt_tokens(request.POST.get("prompt_tokens", ""))
    appraisal = appraise(draft.config, prompt, draft.origin.iteration if draft.origin else 0)
    tones = policy_tones(draft.tree)
    context = {
        "found": appraisal,
        "cluster": appraisal.capacity,
        "pools": [(pool, tones.get(pool.name, SHARED)) for pool in appraisal.estimate.pools],
        "policies": [
            (
                policy,
                tones.get(policy.policy, SHARED),
                [_drawn(appraisal, worker) for worker in policy.workers],
            )
            for policy in appraisal.estimate.policies
        ],
    }
    return render(request, "experiments/_estimate.html", context)


def _prompt_tokens(text: str) -> int:
    return min(max(int(text), 1), LONGEST_PROMPT) if text.isdecimal() and len(text) < 10 else PROMPT_TOKENS


def _drawn(appraisal: Appraisal, worker: WorkerMemory) -> dict[str, object]:
    """Return a worker with its parts as lengths of a bar; the longest bar has full width."""
    workers = [worker for policy in appraisal.estimate.policies for worker in policy.workers]
    longest = max(sum(worker.parts.values()) for worker in workers) or 1
    parts, start = [], 0.0
    for index, (name, words) in enumerate(PARTS.items()):
        taken = worker.parts.get(name, 0)
        width = BAR * taken / longest
        if taken:
            parts.append({"words": words, "bytes": taken, "x": start, "width": width, "tone": index % 7})
        start += width
    return {"does": KINDS[worker.kind], "worker": worker, "parts": parts}
