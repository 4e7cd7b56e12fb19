"""URLs of the quota pages."""

from django.urls import path

from webapp.quotas import views

app_name = "quotas"
urlpatterns = [path("account/projects/<slug:slug>/quotas/", views.quotas_page, name="page")]
