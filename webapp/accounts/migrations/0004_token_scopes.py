import django.db.models.deletion
from django.db import migrations, models


def keep_what_tokens_may(apps, schema_editor):
    """Until now `launch` allowed everything; tokens that have it keep that."""
    tokens = apps.get_model("accounts", "ApiToken").objects.filter(scopes__contains=["launch"])
    for token in tokens.exclude(scopes__contains=["admin"]).iterator():
        token.scopes = sorted([*token.scopes, "admin"])
        token.save(update_fields=["scopes"])


def forget_admin(apps, schema_editor):
    for token in apps.get_model("accounts", "ApiToken").objects.filter(scopes__contains=["admin"]).iterator():
        token.scopes = [scope for scope in token.scopes if scope != "admin"]
        token.save(update_fields=["scopes"])


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_groundwork")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="project",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="api_tokens",
                to="accounts.project",
            ),
        ),
        migrations.RunPython(keep_what_tokens_may, forget_admin),
    ]
