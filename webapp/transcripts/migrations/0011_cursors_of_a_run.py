import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

AT_ONCE = 200


def fill(apps, schema_editor):
    """Figures by role and turn of the episodes whose body is stored."""
    from webapp.transcripts.bodies import unpacked
    from webapp.transcripts.services import advantages_add, facts_of

    Episode = apps.get_model("transcripts", "Episode")
    Annotation = apps.get_model("transcripts", "EpisodeAnnotation")
    missing = Episode.objects.filter(roles={}, body__isnull=False).exclude(turn_count=0)
    last = 0
    while rows := list(missing.filter(pk__gt=last).select_related("body").order_by("pk")[:AT_ONCE]):
        last = rows[-1].pk
        by_name = {(row.run_id, row.name, row.attempt): row for row in rows}
        for row in rows:
            row.roles, row.groups = facts_of(unpacked(row.body.data)["turns"])
        notes = Annotation.objects.filter(
            run_id__in={row.run_id for row in rows}, episode_name__in=[row.name for row in rows]
        )
        for note in notes.order_by("pk"):
            if row := by_name.get((note.run_id, note.episode_name, note.attempt)):
                advantages_add(row.roles, row.groups, unpacked(note.data)["turns"])
        Episode.objects.bulk_update(rows, ["roles", "groups"])


class Migration(migrations.Migration):
    dependencies = [("transcripts", "0001_initial"), ("accounts", "0001_initial"), ("runs", "0001_initial")]
    operations = [
        migrations.AddField("episode", "groups", models.JSONField(default=list)),
        migrations.AddField("episode", "roles", models.JSONField(default=dict)),
        migrations.AddField("episode", "staleness", models.IntegerField(null=True)),
        migrations.AlterField("episode", "run", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="episodes", to="runs.run")),
        migrations.AddIndex("episode", models.Index(fields=["run", "cursor"], name="episodes_by_cursor")),
        migrations.AddIndex("episodeannotation", models.Index(fields=["run", "cursor"], name="annotations_by_cursor")),
        migrations.CreateModel(
            name='SavedQuery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('query', models.CharField(max_length=2000)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_queries', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='saved_queries', to='accounts.project')),
            ],
            options={
                'ordering': ['name', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_query_per_name'), models.UniqueConstraint(condition=models.Q(('project', None)), fields=('owner', 'name'), name='one_own_query_per_name')],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
