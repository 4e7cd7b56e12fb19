"""Series of numbers. Their newest points are in blocks, the others in chunks: webapp.metrics.services has the reason."""

from django.db import models

from webapp.runs.models import Run


class Series(models.Model):
    """One metric of one run, with its summary."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series")
    key = models.CharField(max_length=200)
    count = models.BigIntegerField(default=0)
    last_attempt = models.IntegerField(default=0)
    last_step = models.BigIntegerField(default=0)
    last_value = models.FloatField(default=0.0)
    """May be NaN or infinite."""
    last_time = models.FloatField(default=0.0)
    chunk_count = models.IntegerField(default=0)
    first_value = models.FloatField(null=True)
    """The first finite value to arrive, the reference for changes; null if there is none."""
    min_value = models.FloatField(null=True)
    """Of the finite values."""
    max_value = models.FloatField(null=True)
    wide = models.BooleanField(default=False, db_default=False)
    """Whether a task updates the summary; otherwise each batch does."""

    class Meta:
        # Index by key: tables of runs are filtered and sorted by a metric of all of them.
        indexes = [models.Index(fields=["key"])]
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="one_series_per_key")]


class Chunk(models.Model):
    """Some points of one series in order of arrival: little-endian arrays, each compressed with zstd."""

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="chunks")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count after the batch that contained it: points after a cursor c have `cursor > c`."""
    count = models.IntegerField()
    steps = models.BinaryField()
    """int64."""
    values = models.BinaryField()
    """float64, NaN and infinities included."""
    times = models.BinaryField()
    """float64 seconds since the epoch."""
    cursors = models.BinaryField(null=True)
    """int64, the cursor of each point, in chunks merged from several."""
    first_step = models.BigIntegerField(null=True)
    last_step = models.BigIntegerField(null=True)
    """The smallest and the largest step; null in chunks of earlier versions that are not merged yet."""
    outline = models.BinaryField(null=True)
    """For drawing without the points (webapp.metrics.points); null for a few points."""

    class Meta:
        indexes = [models.Index(fields=["series", "cursor"])]


class Block(models.Model):
    """Some points of many series of a run, in order of arrival: arrays as in Chunk. They are newer than those of the chunks of their
    series. An empty block states up to which cursor the points of its group were moved to chunks.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    group = models.BigIntegerField()
    """Series.id // GROUP, of all its series."""
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """The newest cursor of its points."""
    count = models.IntegerField()
    series = models.BinaryField()
    """int64, the id of the series of each point."""
    steps = models.BinaryField()
    values = models.BinaryField()
    times = models.BinaryField()
    cursors = models.BinaryField(null=True)
    """int64, in blocks merged from several."""
    summed = models.BooleanField(default=False)
    """Whether the summaries of the series contain its points."""

    class Meta:
        indexes = [
            models.Index(fields=["run", "cursor"], name="blocks_of_a_run"),
            models.Index(fields=["group", "cursor"], name="blocks_of_a_group"),
        ]
