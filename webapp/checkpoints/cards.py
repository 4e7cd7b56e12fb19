"""Model cards: front matter for the Hugging Face hub, the origin of the weights, and all facts as JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from webapp.agents.registry import agent_pages
from webapp.checkpoints.models import Checkpoint
from webapp.provenance.services import provenance_flat
from workers.storage.checkpoint_files import Member

TAGS = ["troupe", "reinforcement-learning"]
_HUB_ID = re.compile(r"(?!models/|runs/)[\w.-]+/[\w.-]+", re.ASCII)


def card_of(checkpoint: Checkpoint, policy: str) -> Member:
    """Return the card of a policy. Text of users is indented, so that it stays text."""
    run = checkpoint.run
    roles = [name for name, role in run.config["team"]["roles"].items() if role["policy"] == policy]
    section = run.config["policies"].get(policy, {})
    pages = agent_pages(run.config)
    source, field = pages.card_source
    facts = {
        "run": run.pk,
        "name": run.name,
        "iteration": checkpoint.iteration,
        "parent": f"{run.parent_id} {run.parent_checkpoint}" if run.parent_id else None,
        "policy": policy,
        "roles": roles,
        source: section.get(field, ""),
        "environment": run.config["environment"],
        "algorithm": run.config["algorithm"],
        "metrics": checkpoint.metrics,
        "provenance": provenance_flat([run]).get(run.pk, {}),
    }
    head = "".join(
        f"{name}: {json.dumps(value)}\n" for name, value in _front_matter(pages.card_facts, section).items()
    )
    shown = "\n".join(f"    {line}" for line in json.dumps(facts, indent=2, ensure_ascii=False).splitlines())
    text = (
        f"---\n{head}---\n# {policy}, iteration {checkpoint.iteration}\n\nTrained with Troupe.\n\n{shown}\n"
    )
    content = text.encode()
    return Member(f"{policy}/README.md", len(content), content)


def _front_matter(kind: Mapping[str, str], section: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the hub reads. A base model is named only by its id on the hub, which refuses other names."""
    fields: dict[str, Any] = {**kind, "tags": TAGS}
    model = str(section.get("model", ""))
    adapted = section.get("adapter", {}).get("type", "none") != "none"
    if adapted:
        fields["library_name"] = "peft"
    if _HUB_ID.fullmatch(model):
        fields |= {"base_model": model, "base_model_relation": "adapter" if adapted else "finetune"}
    return fields
