from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Checkpoint',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.IntegerField()),
                ('cursor', models.BigIntegerField()),
                ('iteration', models.IntegerField()),
                ('path', models.CharField(max_length=400)),
                ('size', models.BigIntegerField()),
                ('metrics', models.JSONField(default=dict)),
                ('best', models.BooleanField(default=False)),
                ('removed', models.BooleanField(default=False)),
                ('time', models.DateTimeField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='runs.run')),
                ('pinned', models.BooleanField(default=False)),
                ('damaged', models.TextField(blank=True)),
            ],
            options={
                'ordering': ['-iteration'],
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'path'), name='one_checkpoint_per_path'),
                ],
            },
        ),
    ]
