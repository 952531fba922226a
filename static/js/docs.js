// Renders the OpenAPI schema with Swagger UI. Loads nothing from other hosts.
"use strict";

const reader = document.getElementById("reader");
const dark = matchMedia("(prefers-color-scheme: dark)");

const theme = document.querySelector('meta[name="color-scheme"]').content;

function followColours() {
  const isDark = theme === "dark" || (theme !== "light" && dark.matches);
  document.documentElement.classList.toggle("dark-mode", isDark);
}

function withCsrfToken(request) {
  // Session requests that change data need the CSRF token from the cookie.
  const cookie = document.cookie.match(/(?:^|; )(?:__Host-)?csrf=([^;]+)/);
  if (cookie) request.headers["X-CSRFToken"] = cookie[1];
  return request;
}

dark.addEventListener("change", followColours);
followColours();

SwaggerUIBundle({
  domNode: reader,
  url: reader.dataset.schema,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  requestInterceptor: withCsrfToken,
  tryItOutEnabled: true,
  validatorUrl: null,
});
