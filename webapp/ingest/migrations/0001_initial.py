from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Producer',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('producer', models.CharField(max_length=40)),
                ('attempt', models.IntegerField()),
                ('acknowledged', models.BigIntegerField(default=0)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='producers', to='runs.run')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'producer'), name='one_mark_per_producer'),
                ],
            },
        ),
    ]
