"""Registration of the admin site. The module of the site is named, not imported: Django imports it when it first needs all
URLs, after startup, and not in commands that need no URLs.
"""

from django.urls import URLResolver
from django.urls.resolvers import RoutePattern

mounted = URLResolver(
    RoutePattern("admin/"), "webapp.administration.urls", app_name="admin", namespace="admin"
)
