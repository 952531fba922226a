from django.urls import path, register_converter

from desks.api.views import DeskViewSet, MeView
from desks.ids import RANDOM_CHARACTERS, USER


class UserIdConverter:
    """A ``userId`` in a path."""

    regex = f"{USER}[0-9A-Za-z]{{{RANDOM_CHARACTERS}}}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(UserIdConverter, "userId")

urlpatterns = [
    path("me", MeView.as_view(), name="me"),
    path("desks", DeskViewSet.as_view({"get": "list"}), name="desks"),
    path("desks/<userId:user_id>", DeskViewSet.as_view({"get": "retrieve"}), name="desk-record"),
]
