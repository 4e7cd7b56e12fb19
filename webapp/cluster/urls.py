"""URLs of the cluster pages."""

from django.urls import path

from webapp.cluster import views

app_name = "cluster"
urlpatterns = [path("", views.cluster_page, name="page")]
