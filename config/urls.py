"""The whole URL map."""

from django.contrib import admin
from django.urls import include, path

from config.catalog import CatalogView
from config.docs import SchemaView, docs
from config.health import healthz, readyz
from config.metrics_page import metrics
from config.pages import home, one_problem, problems

handler400 = "config.problems.bad_request"
handler403 = "config.problems.permission_denied"
handler404 = "config.problems.not_found"
handler429 = "config.pages.too_many"  # asked for by the limits of the account pages
handler500 = "config.problems.server_error"

urlpatterns = [
    path("api/v1", CatalogView.as_view(), name="catalog"),
    path("api/v1/", include("events.api.urls")),
    path("api/v1/", include("desks.api.urls")),
    path("api/v1/", include("tokens.api.urls")),
    path("api/v1/", include("signals.api.urls")),
    path("api/hooks/", include("signals.api.hook_urls")),
    path("api/schema", SchemaView.as_view(), name="schema"),
    path("api/docs", docs, name="docs"),
    path("", home, name="home"),
    path("", include("signals.urls")),
    path("", include("tokens.urls")),
    path("", include("desks.urls")),
    path("problems", problems, name="problems"),
    path("problems/<str:code>", one_problem, name="problem"),
    path("control/", admin.site.urls),
    path("accounts/", include("allauth.urls")),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
]
