from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("transcripts", "0001_initial"), ("runs", "0003_families_of_old_runs")]

    operations = [
        migrations.AddField(
            "episode", "environment", models.CharField(blank=True, default="", max_length=80), preserve_default=False
        ),
        migrations.AddField("episode", "words", SearchVectorField(null=True)),
        migrations.AddIndex(
            "episode", models.Index(fields=["run", "iteration", "-id"], name="episodes_of_an_iteration")
        ),
        migrations.AddIndex("episode", GinIndex(fields=["words"], name="episode_words")),
    ]
