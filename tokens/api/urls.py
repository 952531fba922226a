from django.urls import path

from tokens.api.views import TokenViewSet

urlpatterns = [
    path(
        "tokens",
        TokenViewSet.as_view({"get": "list", "post": "create", "delete": "revoke"}),
        name="tokens",
    )
]
