from django.urls import path

from signals import views

urlpatterns = [
    path("desk", views.overview, name="desk"),
    path("bots", views.bots, name="bots"),
    path("bots/<str:bot_id>", views.one_bot, name="bot"),
    path("bots/<str:bot_id>/check", views.check, name="check"),
    path("activity", views.activity, name="activity"),
]
