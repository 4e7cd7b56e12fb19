"""URLs of the API of panels, below /api/v1/."""

from django.urls import path

from webapp.panels import api

urlpatterns = [path("expressions/check/", api.ExpressionCheck.as_view(), name="expression-check")]
