"""REST API of the cluster."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.cluster.selectors import cluster_read


class Cluster(APIView):
    """Devices, and who holds them."""

    @extend_schema(responses=JSON)
    def get(self, request: Request) -> Response:
        """What the cluster has, what is free, which of the caller's runs hold or wait for what."""
        return Response(cluster_read(request.user))
