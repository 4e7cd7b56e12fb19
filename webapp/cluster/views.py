"""The cluster page; htmx reloads its body every few seconds."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.cluster.services import DEVICES, cluster_read


@require_GET
def cluster_page(request: HttpRequest) -> HttpResponse:
    """Show nodes, runs that hold devices, queued runs, and the server's background work."""
    cluster = cluster_read(request.user)
    total = cluster.capacity
    context = {
        "cluster": cluster,
        "holding": [row for row in cluster.runs if row.holds],
        "waiting": [row for row in cluster.runs if not row.holds],
        "devices": [
            (label, getattr(total, name) - getattr(total, f"free_{name}"), getattr(total, name))
            for name, label in (DEVICES if total else ())
        ],
        "place": "cluster",
    }
    template = "cluster/_body.html" if getattr(request, "htmx", False) else "cluster/page.html"
    return render(request, template, context)
