from django.apps import AppConfig


class AdministrationConfig(AppConfig):
    name = "webapp.administration"
