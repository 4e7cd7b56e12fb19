"""Prometheus metrics: only counts, no names of users, projects or runs."""

from collections.abc import Iterator

from django.db import Error as DatabaseError
from django.db.models import Count, Sum
from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Metric,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webapp.runs.models import Run, RunState
from webapp.site.health import check_all


class TroupeCollector(Collector):
    """Reads the database on every scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield runs by state, stored events, and the health of each part. Without a database, only the parts."""
        parts = GaugeMetricFamily(
            "troupe_part_up", "1 while this part of the stack is healthy", labels=["part"]
        )
        for name, state in check_all().items():
            parts.add_metric([name], float(state == "ok"))
        yield parts
        try:
            counts = dict(Run.objects.values_list("state").annotate(Count("pk")))
            events = Run.objects.aggregate(total=Sum("event_count"))["total"] or 0
        except DatabaseError:
            return
        runs = GaugeMetricFamily("troupe_runs", "Runs in each state", labels=["state"])
        for state in RunState.values:
            runs.add_metric([state], float(counts.get(state, 0)))
        yield runs
        yield GaugeMetricFamily("troupe_events_stored", "Stored events of existing runs", value=float(events))


REGISTRY = CollectorRegistry()
for _collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, TroupeCollector()):
    REGISTRY.register(_collector)


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)
