from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Batch',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('iteration', models.IntegerField()),
                ('consumed', models.FloatField()),
                ('learnt', models.FloatField()),
                ('data', models.BinaryField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='batches', to='runs.run')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'iteration'], name='timeline_ba_run_id_54d49f_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            'Utilisation',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('worker', models.CharField(max_length=80)),
                ('device', models.CharField(max_length=200)),
                ('start', models.FloatField()),
                ('end', models.FloatField()),
                ('data', models.BinaryField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='utilisation', to='runs.run')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'start'], name='timeline_ut_run_id_66709c_idx'),
                ],
            },
        ),
    ]
