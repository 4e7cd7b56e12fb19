from django.conf import settings
from django.db import migrations, models
import django.db.models.deletion
import webapp.runs.models


class Migration(migrations.Migration):
    initial = True
    dependencies = [('accounts', '0001_initial'), ('experiments', '0001_groundwork')]
    operations = [
        migrations.CreateModel(
            'Run',
            [
                ('id', models.CharField(default=webapp.runs.models.new_run_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=120)),
                ('preset', models.CharField(blank=True, max_length=80)),
                ('tags', models.JSONField(default=list)),
                ('config', models.JSONField()),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('queued', 'Queued'), ('starting', 'Starting'), ('running', 'Running'), ('stopping', 'Stopping'), ('paused', 'Paused'), ('finished', 'Finished'), ('stopped', 'Stopped'), ('failed', 'Failed')], db_index=True, default='queued', max_length=10)),
                ('reason', models.TextField(blank=True)),
                ('stop_requested', models.CharField(blank=True, max_length=6)),
                ('stop_requested_at', models.DateTimeField(blank=True, null=True)),
                ('iteration', models.IntegerField(default=0)),
                ('iterations', models.IntegerField()),
                ('headline', models.JSONField(default=dict)),
                ('facts', models.JSONField(default=dict)),
                ('event_count', models.BigIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='accounts.project')),
                ('archived', models.BooleanField(db_index=True, default=False)),
                ('family', models.CharField(blank=True, db_index=True, max_length=64)),
                ('finding_counts', models.JSONField(default=dict)),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='forks', to='runs.run')),
                ('parent_checkpoint', models.CharField(blank=True, max_length=400)),
                ('priority', models.IntegerField(default=0)),
                ('source', models.CharField(choices=[('troupe', 'Troupe'), ('client', 'Client')], default='troupe', max_length=8)),
                ('sweep', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='experiments.sweep')),
                ('edits', models.JSONField(blank=True, default=dict)),
                ('end_requested_at', models.DateTimeField(blank=True, null=True)),
                ('losses_from', models.IntegerField(default=0)),
                ('resume_from', models.CharField(blank=True, max_length=400)),
                ('values_dropped', models.BigIntegerField(default=0)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['project', '-created_at'], name='runs_run_project_44b5a3_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            'Phase',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('worker', models.CharField(max_length=80)),
                ('phase', models.CharField(max_length=12)),
                ('policy', models.CharField(blank=True, max_length=40)),
                ('iteration', models.IntegerField()),
                ('start', models.FloatField()),
                ('end', models.FloatField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='phases', to='runs.run')),
                ('flops', models.FloatField(null=True)),
                ('peak', models.FloatField(null=True)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'start'], name='runs_phase_run_id_c86cf3_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            'LogLine',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('time', models.DateTimeField()),
                ('level', models.CharField(max_length=8)),
                ('source', models.CharField(max_length=80)),
                ('message', models.TextField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log_lines', to='runs.run')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', '-id'], name='runs_loglin_run_id_85539b_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            'Attempt',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('state', models.CharField(choices=[('submitting', 'Submitting'), ('live', 'Live'), ('ended', 'Ended')], default='submitting', max_length=10)),
                ('ended_as', models.CharField(blank=True, max_length=10)),
                ('reason', models.TextField(blank=True)),
                ('submission_id', models.CharField(max_length=80, unique=True)),
                ('resumed_from', models.CharField(blank=True, max_length=400)),
                ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                ('unreachable_since', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='runs.run')),
                ('changes', models.JSONField(default=dict)),
                ('cluster', models.CharField(blank=True, max_length=32)),
                ('exact', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ['number'],
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'number'), name='one_attempt_per_number'),
                ],
            },
        ),
        migrations.CreateModel(
            'RunNote',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.BigIntegerField(null=True)),
                ('text', models.TextField(max_length=4000)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='run_notes', to='runs.run')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            'SavedView',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('query', models.JSONField(default=dict)),
                ('default', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to='accounts.project')),
            ],
            options={
                'ordering': ['name', 'pk'],
                'constraints': [
                    models.UniqueConstraint(fields=('project', 'name'), name='one_view_per_name'),
                    models.UniqueConstraint(condition=models.Q(('project', None)), fields=('owner', 'name'), name='one_own_view_per_name'),
                ],
            },
        ),
    ]
