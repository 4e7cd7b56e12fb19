import django.core.validators
from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('accounts', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Quota',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('runs', models.PositiveIntegerField(blank=True, null=True, verbose_name='Concurrent runs')),
                ('cpus', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='CPU cores in use')),
                ('gpus', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='GPUs in use')),
                ('points', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='Stored points')),
                ('gigabytes', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='Stored gigabytes')),
                ('locked', models.BooleanField(default=False, verbose_name='Administrators only')),
                ('stored_points', models.BigIntegerField(default=0)),
                ('stored_bytes', models.BigIntegerField(default=0)),
                ('measured_at', models.DateTimeField(blank=True, null=True)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='quota', to='accounts.project')),
            ],
        ),
    ]
