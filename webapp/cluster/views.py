"""The cluster page; htmx reloads its body every few seconds."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.cluster.selectors import cluster_read


@require_GET
def cluster_page(request: HttpRequest) -> HttpResponse:
    """Show nodes, runs that hold devices, queued runs, and the server's background work."""
    cluster = cluster_read(request.user)
    rows = cluster["runs"]
    context = {
        "cluster": cluster,
        "holding": [row for row in rows if row["holds"]],
        "waiting": [row for row in rows if not row["holds"]],
        "devices": _devices(cluster["capacity"]),
        "place": "cluster",
    }
    template = "cluster/_body.html" if getattr(request, "htmx", False) else "cluster/page.html"
    return render(request, template, context)


def _devices(capacity: dict[str, float] | None) -> list[tuple[str, float, float]]:
    """Return (name, in use, total) of each kind of device in the cluster."""
    if capacity is None:
        return []
    kinds = (("CPU cores", "cpus"), ("GPUs", "gpus"))
    return [(label, capacity[name] - capacity[f"free_{name}"], capacity[name]) for label, name in kinds]
