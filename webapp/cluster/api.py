"""REST API of the cluster."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.cluster.selectors import cluster_read


class Cluster(APIView):
    """Devices, and the runs that hold them."""

    @extend_schema(responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the cluster's capacity, free devices, and the runs of the caller that hold or wait for devices."""
        return Response(cluster_read(request.user))
