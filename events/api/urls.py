from django.urls import path

from events.api.views import EventViewSet

urlpatterns = [path("events", EventViewSet.as_view({"get": "list"}), name="events")]
