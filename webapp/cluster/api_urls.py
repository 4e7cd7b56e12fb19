"""URLs of the cluster API, below /api/v1/."""

from django.urls import path

from webapp.cluster import api

urlpatterns = [path("cluster/", api.Cluster.as_view(), name="cluster")]
