"""URLs of the experiments API, below /api/v1/."""

from django.urls import path

from webapp.experiments import estimate_api, preset_api, sweep_api, team_api, template_api

urlpatterns = [
    path("presets/", preset_api.Presets.as_view(), name="presets"),
    path("schema/run/", preset_api.RunSchema.as_view(), name="schema-run"),
    path("estimate/", estimate_api.Estimates.as_view(), name="estimate"),
    path("profiles/", team_api.Profiles.as_view(), name="profiles"),
    path("team/", team_api.Teams.as_view(), name="team"),
    path("team/picture/", team_api.TeamPictures.as_view(), name="team-picture"),
    path("templates/", template_api.Templates.as_view(), name="templates"),
    path("templates/<int:pk>/", template_api.TemplateDetail.as_view(), name="template"),
    path("templates/<int:pk>/launch/", template_api.TemplateLaunch.as_view(), name="template-launch"),
    path("sweeps/", sweep_api.Sweeps.as_view(), name="sweeps"),
    path("sweeps/plan/", sweep_api.SweepPlans.as_view(), name="sweep-plan"),
    path("sweeps/<int:pk>/", sweep_api.SweepDetail.as_view(), name="sweep"),
    path("sweeps/<int:pk>/stop/", sweep_api.SweepStop.as_view(), name="sweep-stop"),
]
