from django.conf import settings
import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('accounts', '0001_initial'), ('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Episode',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('name', models.CharField(max_length=80)),
                ('iteration', models.IntegerField()),
                ('kind', models.CharField(max_length=12)),
                ('probe', models.BooleanField(default=False)),
                ('task', models.CharField(max_length=200)),
                ('title', models.CharField(max_length=200)),
                ('outcome', models.CharField(max_length=200)),
                ('success', models.BooleanField(null=True)),
                ('failed', models.BooleanField(default=False)),
                ('error', models.TextField(blank=True)),
                ('truncated', models.BooleanField(default=False)),
                ('episode_return', models.FloatField()),
                ('rewards', models.JSONField(default=dict)),
                ('versions', models.JSONField(default=dict)),
                ('turn_count', models.IntegerField()),
                ('tokens', models.IntegerField()),
                ('started', models.FloatField()),
                ('ended', models.FloatField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='runs.run')),
                ('environment', models.CharField(blank=True, max_length=80)),
                ('words', django.contrib.postgres.search.SearchVectorField(null=True)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', '-id'], name='transcripts_run_id_9a8b88_idx'),
                    models.Index(fields=['run', 'kind', '-id'], name='transcripts_run_id_32c106_idx'),
                    models.Index(fields=['run', 'task'], name='transcripts_run_id_31ad96_idx'),
                    models.Index(fields=['run', 'iteration', '-id'], name='episodes_of_an_iteration'),
                    django.contrib.postgres.indexes.GinIndex(fields=['words'], name='episode_words'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'name'), name='one_episode_per_name'),
                ],
            },
        ),
        migrations.CreateModel(
            'EpisodeBody',
            [
                ('episode', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='body', serialize=False, to='transcripts.episode')),
                ('data', models.BinaryField()),
                ('size', models.IntegerField()),
                ('frames', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            'EpisodeAnnotation',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('episode_name', models.CharField(max_length=80)),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('data', models.BinaryField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='episode_annotations', to='runs.run')),
                ('frames', models.JSONField(default=list)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'episode_name'], name='transcripts_run_id_8b7228_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            'EpisodeNote',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('turn', models.IntegerField(null=True)),
                ('label', models.CharField(blank=True, max_length=40)),
                ('text', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notes', to='transcripts.episode')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['label', 'episode'], name='transcripts_label_913950_idx'),
                ],
            },
        ),
    ]
