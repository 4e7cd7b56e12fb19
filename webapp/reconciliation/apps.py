from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    name = "webapp.reconciliation"
