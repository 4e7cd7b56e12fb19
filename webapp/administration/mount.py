"""Where the admin hangs. Its module is named, not imported: Django does so when it first needs all addresses, which is after
its start and in no command that builds none.
"""

from django.urls import URLResolver
from django.urls.resolvers import RoutePattern

mounted = URLResolver(
    RoutePattern("admin/"), "webapp.administration.urls", app_name="admin", namespace="admin"
)
