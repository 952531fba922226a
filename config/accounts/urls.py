"""The account pages. Sign-up is our own, the rest is allauth's."""

from django.urls import include, path

from config.accounts import data, password_reset, preferences, signup

urlpatterns = [
    # Listed before allauth's pages, so that these win.
    path("signup/", signup.sign_up, name="account_signup"),
    path("signup/sent/", signup.check_email, name="account_signup_sent"),
    path("signup/link/<str:token>/", signup.follow_link, name="account_signup_link"),
    path("signup/password/", signup.choose_password, name="account_signup_password"),
    path("password/reset/", password_reset.ask, name="account_reset_password"),
    path("password/reset/done/", password_reset.check_email, name="account_reset_password_done"),
    path("preferences/", preferences.preferences, name="account_preferences"),
    path("data/", data.own_data, name="account_data"),
    path("close/", data.close, name="account_close"),
    path("", include("allauth.urls")),
]
