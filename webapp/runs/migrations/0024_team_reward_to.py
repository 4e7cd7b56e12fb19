"""Stored configs pay the team's reward as they did before the field `algorithm.team_reward_to`."""

from django.db import migrations

WRITE = """
UPDATE runs_run SET config = jsonb_set(config, '{algorithm,team_reward_to}', '"speaker"')
WHERE config -> 'algorithm' ? 'team_weight' AND NOT config -> 'algorithm' ? 'team_reward_to'
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0023_long_steps")]
    operations = [migrations.RunSQL(WRITE, migrations.RunSQL.noop)]
