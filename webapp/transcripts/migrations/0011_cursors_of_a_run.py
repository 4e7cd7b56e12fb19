from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Live deltas read rows of a run between two cursors."""

    atomic = False
    dependencies = [("transcripts", "0010_indexes_of_a_run")]

    operations = [
        AddIndexConcurrently("episode", models.Index(fields=["run", "cursor"], name="episodes_by_cursor")),
        AddIndexConcurrently(
            "episodeannotation", models.Index(fields=["run", "cursor"], name="annotations_by_cursor")
        ),
    ]
