"""URLs of the comparison pages."""

from django.urls import path

from webapp.compare import views

app_name = "compare"
urlpatterns = [
    path("compare/", views.compare_page, name="page"),
    path("compare/curves.csv", views.curves_csv, name="csv"),
    path("compare/share/", views.compare_share, name="share"),
    path("compare/config/", views.config_page, name="config"),
    path("compare/parallel/", views.parallel_page, name="parallel"),
    path("compare/probes/", views.probes_page, name="probes"),
    path("compare/media/", views.media_page, name="media"),
]
