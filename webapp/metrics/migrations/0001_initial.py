from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Series',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('count', models.BigIntegerField(default=0)),
                ('last_step', models.BigIntegerField(default=0)),
                ('last_value', models.FloatField(default=0.0)),
                ('last_time', models.FloatField(default=0.0)),
                ('chunk_count', models.IntegerField(default=0)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='series', to='runs.run')),
                ('last_attempt', models.IntegerField(default=0)),
                ('first_value', models.FloatField(null=True)),
                ('max_value', models.FloatField(null=True)),
                ('min_value', models.FloatField(null=True)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['key'], name='metrics_ser_key_fd00cf_idx'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'key'), name='one_series_per_key'),
                ],
            },
        ),
        migrations.CreateModel(
            'Chunk',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('count', models.IntegerField()),
                ('steps', models.BinaryField()),
                ('values', models.BinaryField()),
                ('times', models.BinaryField()),
                ('series', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='metrics.series')),
                ('cursors', models.BinaryField(null=True)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['series', 'cursor'], name='metrics_chu_series__44c174_idx'),
                ],
            },
        ),
    ]
