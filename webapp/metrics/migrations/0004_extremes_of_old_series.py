from math import isfinite

from django.db import migrations

HEADLINE = ("eval/success", "eval_sampled/success", "train/return")


def fill(apps, schema_editor):
    """First value and extremes of the series that are there; goes on where it was broken off."""
    Series = apps.get_model("metrics", "Series")
    for series in Series.objects.filter(first_value=None).order_by("pk").iterator(200):
        finite = [value for value in _values(series) if isfinite(value)]
        if not finite:
            continue
        series.first_value, series.min_value, series.max_value = finite[0], min(finite), max(finite)
        series.save(update_fields=["first_value", "min_value", "max_value"])
        if series.key in HEADLINE:
            run = apps.get_model("runs", "Run").objects.get(pk=series.run_id)
            run.headline["first"] = {**run.headline.get("first", {}), series.key: finite[0]}
            run.save(update_fields=["headline"])


def _values(series):
    from webapp.metrics.arrays import unpack_floats

    for chunk in series.chunks.order_by("id").iterator(50):
        yield from unpack_floats(chunk.values).tolist()


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metrics", "0003_extremes"), ("runs", "0003_families_of_old_runs")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
