import hashlib
import json

from django.db import migrations

ASIDE = ("seed", "name", "description", "tags")


def fill(apps, schema_editor):
    for run in apps.get_model("runs", "Run").objects.filter(family="").only("pk", "config").iterator():
        said = run.config.get("run")
        rest = {key: value for key, value in said.items() if key not in ASIDE} if isinstance(said, dict) else said
        text = json.dumps({**run.config, "run": rest}, sort_keys=True, default=str)
        run.family = hashlib.sha256(text.encode()).hexdigest()[:16]
        run.save(update_fields=["family"])


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_groundwork")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
