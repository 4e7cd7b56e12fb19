from django.urls import URLPattern

app_name = "transcripts"
urlpatterns: list[URLPattern] = []
