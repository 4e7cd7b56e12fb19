"""URLs below /admin/."""

from webapp.administration.site import site

urlpatterns = site.get_urls()
