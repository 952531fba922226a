from django.urls import path

from desks.api.views import DeskViewSet, MeView

urlpatterns = [
    path("me", MeView.as_view(), name="me"),
    path("desks", DeskViewSet.as_view({"get": "list"}), name="desks"),
    path("desks/<userId:user_id>", DeskViewSet.as_view({"get": "retrieve"}), name="desk-record"),
]
