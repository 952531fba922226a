from django.urls import path

from desks import views

urlpatterns = [
    path("desk/connect", views.connect, name="connect"),
    path("desk/disconnect", views.disconnect, name="disconnect"),
    path("desk/enrol", views.enrol, name="enrol"),
    path("desk/withdraw", views.withdraw, name="withdraw"),
    path("bots/<str:bot_id>/elect", views.elect, name="elect"),
    path("bots/<str:bot_id>/withdraw", views.withdraw_bot, name="withdraw-bot"),
]
