"""The cluster in the REST API."""

from troupe_client.documents.cluster import Cluster
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.cluster.services import cluster_read

routes = Routes()


@routes.get("cluster/", name="cluster")
def cluster(user: Person) -> Cluster:
    """Return the cluster's capacity, free devices, and the runs that hold or wait for devices."""
    return cluster_read(user)
