from django.apps import AppConfig


class StackConfig(AppConfig):
    name = "webapp.stack"
