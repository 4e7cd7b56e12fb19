"""Back to the page that a form was on."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme


def back(request: HttpRequest, otherwise: str) -> HttpResponse:
    """To the form's `next`, if that is a page of ours, or else to `otherwise`."""
    place = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(place, {request.get_host()}, require_https=request.is_secure())
    return redirect(place if safe else otherwise)
