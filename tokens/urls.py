from django.urls import path

from tokens import views

urlpatterns = [
    path("desk/token", views.mint, name="mint"),
    path("desk/token/revoke", views.revoke, name="revoke"),
    path("bots/<str:bot_id>/secret", views.generate, name="generate"),
    path("bots/<str:bot_id>/secrets/<str:secret_id>/end", views.end, name="end-secret"),
    path("bots/<str:bot_id>/remove", views.remove, name="remove-bot"),
]
