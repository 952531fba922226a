"""The URL map."""

from django.contrib import admin
from django.urls import include, path

from config.catalog import CatalogView
from config.monitoring import healthz, metrics, readyz
from config.openapi.generator import SchemaView
from config.openapi.reference import docs
from config.problems import one_problem, problems
from signals import urls as signals_urls

handler400 = handler403 = handler404 = "config.problems.error"
handler429 = "config.problems.too_many"  # used by allauth's rate limits
handler500 = "config.problems.server_error"

urlpatterns = [
    # The paths of signals come first, because most requests go there.
    path("api/", include(signals_urls.api)),
    path("api/v1", CatalogView.as_view(), name="catalog"),
    path("api/v1/", include("events.api")),
    path("api/v1/", include("desks.api")),
    path("api/v1/", include("tokens.api")),
    path("api/schema", SchemaView.as_view(), name="schema"),
    path("api/docs", docs, name="docs"),
    path("", include(signals_urls.pages)),
    path("problems", problems, name="problems"),
    path("problems/<str:code>", one_problem, name="problem"),
    path("control/", admin.site.urls),
    path("accounts/", include("config.accounts.urls")),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
]
