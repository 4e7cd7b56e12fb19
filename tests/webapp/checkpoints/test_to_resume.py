"""The page's choice of the checkpoint to resume from is that of the next attempt."""

import random

from django.utils import timezone

from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.selectors import checkpoint_latest, checkpoint_to_resume, checkpoints_list
from webapp.runs.models import Attempt, Run
from webapp.runs.selectors import attempts_of


def test_both_choices_are_equal_for_any_history(run: Run) -> None:
    draw, chosen = random.Random(0), set()
    for _ in range(40):
        run.attempts.all().delete()
        run.checkpoints.all().delete()
        for number in range(1, draw.randint(2, 4)):
            resumed = draw.choice([0, 0, 10, 20])
            Attempt.objects.create(
                run=run, number=number, submission_id=f"{run.pk}-{number}", resumed_iteration=resumed,
                resumed_from=f"checkpoints/iteration-{resumed:06}" if resumed else "",
            )  # fmt: skip
            for iteration in draw.sample([10, 20, 30, 40], draw.randint(0, 3)):
                Checkpoint.objects.create(
                    run=run, attempt=number, iteration=iteration, path=f"{number}-{iteration}", size=1, time=timezone.now(),
                    cursor=1, metrics={}, removed=draw.random() < 0.3, damaged="bad" if draw.random() < 0.2 else "",
                )  # fmt: skip
        wanted = checkpoint_latest(run)
        assert checkpoint_to_resume(checkpoints_list(run), attempts_of(run)) == wanted
        chosen.add(wanted and (wanted.attempt, wanted.iteration))
    assert len(chosen) > 4 and None in chosen
