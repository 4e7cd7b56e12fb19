"""Redirects to a page specified in the request."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme


def local_address(path: str, otherwise: str) -> str:
    """Return `place` if it is the absolute path of a page of this server, otherwise `otherwise`, which must be one."""
    safe = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    return path if safe else otherwise


def back(request: HttpRequest, otherwise: str) -> HttpResponse:
    """Redirect to the form's `next` if it is a page of this server, otherwise to `otherwise`."""
    return HttpResponseRedirect(local_address(request.POST.get("next", ""), otherwise))
