"""The cluster: its nodes, the runs that hold its devices, those that wait for them, and the server's background work."""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from troupe_client.documents.base import Document


class ClusterCapacity(Document):
    """Total and free devices."""

    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float


class ClusterNode(ClusterCapacity):
    """A machine of the cluster."""

    id: str
    name: str = Field(description="Host name or address.")
    head: bool = Field(description="Whether it is the head node.")
    memory: int = Field(description="Bytes of main memory; 0 if unknown.")
    gpu_memory: int = Field(description="Bytes of its smallest GPU; 0 if it has none or they are unknown.")


class DevicePool(Document):
    """Processes of one policy, or shared ones, and their total devices."""

    name: str
    kind: str = Field(description="policy, environments, coordinator, evaluator or trainer.")
    workers: int
    cpus: float
    gpus: float


class ClusterPool(DevicePool):
    """Processes of a run."""

    tone: int = Field(description="Number of the policy's colour.")


class ClusterLimit(Document):
    """A resource that a waiting run lacks."""

    resource: str
    wants: float
    free: float = Field(description="After the runs that hold devices or come before it.")
    lacks: float
    total: float
    never: bool = Field(description="Whether the cluster can never provide it.")


class ClusterRun(Document):
    """A run that holds devices, or waits for them. Of runs in other projects only the devices are stated."""

    columns: ClassVar = {
        "run": "run",
        "place": "place",
        "name": "name",
        "state": "state",
        "owner": "owner",
        "priority": "priority",
        "CPU": "cpus",
        "GPU": "gpus",
        "limited by": "limits",
    }

    run: str | None
    name: str
    project: str | None = Field(description="Slug of the project.")
    owner: str | None
    state: str
    reason: str
    priority: int
    since: datetime
    cpus: float | None = Field(description="Null for a config of another version of Troupe.")
    gpus: float | None
    shared_by: int = Field(description="Number of runs in its process.")
    pools: list[ClusterPool]
    holds: bool = Field(description="Whether it holds its devices.")
    place: int | None = Field(description="Place in the queue, from 1.")
    limits: list[ClusterLimit]


class WorkerStatus(Document):
    """The worker of background tasks."""

    alive: bool
    seen_seconds: float | None = Field(description="Seconds since its last heartbeat.")
    backlog: int | None = Field(description="Waiting tasks; null while Redis does not answer.")


class IngestStatus(Document):
    """The reception of events."""

    producers: int = Field(description="Producers of events in the last minute.")
    running: int = Field(description="Running runs.")
    late: int = Field(description="Running runs whose driver has been silent for 30 s.")
    lag_seconds: float | None = Field(description="The longest silence of a running run.")


class BackgroundStatus(Document):
    """The server's background work."""

    worker: WorkerStatus
    ingest: IngestStatus


class Cluster(Document):
    """The cluster and what uses it."""

    reachable: bool = Field(description="Whether the cluster answers.")
    launcher: str
    capacity: ClusterCapacity | None = Field(description="Null if it does not answer.")
    nodes: list[ClusterNode]
    runs: list[ClusterRun] = Field(description="Runs that hold devices, then the queue in its order.")
    services: BackgroundStatus
