from django.conf import settings
from django.db import migrations, models
import django.db.models.deletion
import webapp.runs.models


class Migration(migrations.Migration):
    initial = True
    dependencies = [('accounts', '0001_initial'), ('checkpoints', '0001_initial'), ('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Job',
            [
                ('id', models.CharField(default=webapp.runs.models.new_run_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('check', 'check'), ('dry_run', 'dry run'), ('evaluate', 'evaluation'), ('talk', 'conversation'), ('match', 'match'), ('prepare', 'model preparation')], max_length=10)),
                ('config', models.JSONField()),
                ('parameters', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('finished', 'Finished'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], db_index=True, default='queued', max_length=10)),
                ('progress', models.FloatField(default=0.0)),
                ('message', models.TextField(blank=True)),
                ('result', models.JSONField(default=dict)),
                ('episodes', models.BinaryField(default=bytes)),
                ('submission_id', models.CharField(blank=True, max_length=80)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('checkpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='checkpoints.checkpoint')),
                ('other', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='checkpoints.checkpoint')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='accounts.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to='runs.run')),
            ],
            options={
                'ordering': ['-created_at', '-pk'],
            },
        ),
    ]
