"""The preview next to the form of an experiment, with the last check of its config."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from training_core.errors import ConfigError
from webapp.experiments.views import posted_draft, preview_response
from webapp.jobs.form_checks import form_check_read, form_check_start


@require_POST
def form_preview(request: HttpRequest) -> HttpResponse:
    """Validate the current form: its errors, its last check, and the equivalent commands (a fragment for htmx).

    With ?start=1 a check of the form's config is started first.
    """
    draft, error = posted_draft(request)
    last, check = request.POST.get("check", ""), None
    try:
        if "start" in request.GET and draft.config is not None and not error:
            check = form_check_start(request.user, draft, request.POST.get("project", ""), last)
        else:
            check = form_check_read(request.user, draft, last)
    except ConfigError as refused:
        error = str(refused)
        check = form_check_read(request.user, draft, last)
    return preview_response(request, draft, error, check=check)
