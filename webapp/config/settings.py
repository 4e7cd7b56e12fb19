"""Django's settings, read from the environment (see webapp/config/environment.py and docs/reference/configuration.md).

`manage.py up` sets DATABASE_URL, REDIS_URL and TROUPE_SECRET_KEY if the user has not.
"""

from csp.constants import NONE, SELF, UNSAFE_INLINE

from webapp.config import environment as env

env.join_running_stack()

ROOT = env.ROOT
TROUPE_HOME = env.home()
TROUPE_URL = env.text("TROUPE_SERVER_URL", "http://127.0.0.1:8000")
"""Base URL of this server for its own jobs."""
TROUPE_PUBLIC_URL = env.public_url(TROUPE_URL)
"""Base URL of this server for people: in login links, events and findings."""
TROUPE_LAUNCHER = env.text("TROUPE_LAUNCHER", "ray")
"""ray, or local: runs as child processes of the worker."""

NO_SECRET_KEY = "only-for-management-commands-without-a-stack"
SECRET_KEY = env.text("TROUPE_SECRET_KEY", NO_SECRET_KEY)
DEBUG = env.flag("TROUPE_DEBUG", default=False)
ALLOWED_HOSTS = [
    *env.text("TROUPE_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(","),
    *env.hosts_of(TROUPE_URL, TROUPE_PUBLIC_URL),
]
CSRF_TRUSTED_ORIGINS = env.words("TROUPE_TRUSTED_ORIGINS")
if env.text("TROUPE_PUBLIC_URL"):
    CSRF_TRUSTED_ORIGINS.append(TROUPE_PUBLIC_URL)

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # no autodiscovery: webapp/administration registers the models
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "webapp.common",
    "webapp.accounts",
    "webapp.experiments",
    "webapp.runs",
    "webapp.provenance",
    "webapp.metrics",
    "webapp.media",
    "webapp.transcripts",
    "webapp.checkpoints",
    "webapp.artifacts",
    "webapp.jobs",
    "webapp.health",
    "webapp.timeline",
    "webapp.compare",
    "webapp.reports",
    "webapp.shares",
    "webapp.quotas",
    "webapp.notifications",
    "webapp.administration",
    "webapp.cluster",
    "webapp.ingest",
    "webapp.mlflow",
    "webapp.reconciliation",
    "webapp.documents",
    "webapp.live",
    "webapp.api",
    "webapp.stack",
    "webapp.site",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.common.middleware.CompressedText",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webapp.shares.access.SharedAccess",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "webapp.common.middleware.NeverStored",
    "webapp.common.middleware.RefusedText",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",  # after SharedAccess, whose visitors need no login
    "django_htmx.middleware.HtmxMiddleware",
]

DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
ROOT_URLCONF = "webapp.site.urls"
ASGI_APPLICATION = "webapp.site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "webapp" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": [
                "django.templatetags.static",
                "webapp.common.templatetags.components",
                "webapp.common.templatetags.troupe",
                "webapp.agents.tags",
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {
    "default": env.database(
        env.text("DATABASE_URL", "postgres://troupe@127.0.0.1:5432/troupe"), env.number(env.CONNECTIONS, 0)
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SOFT_TIME_LIMIT, CELERY_TASK_TIME_LIMIT = (
    50,
    60,
)  # seconds; tasks are short, longer ones set their own limit
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # wait for Redis indefinitely
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 2,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.5,
}
CELERY_BEAT_SCHEDULE = {
    # Late tasks are dropped: the next one follows shortly.
    "alive": {"task": "common.alive", "schedule": 10.0, "options": {"expires": 10.0}},
    "reconcile": {"task": "runs.reconcile", "schedule": 5.0, "options": {"expires": 5.0}},
    "compact": {"task": "metrics.compact", "schedule": 60.0, "options": {"expires": 60.0}},
    "health": {"task": "health.watch", "schedule": 5.0, "options": {"expires": 5.0}},
    "notifications": {"task": "notifications.due", "schedule": 10.0, "options": {"expires": 10.0}},
    "quotas": {"task": "quotas.measure", "schedule": 30.0, "options": {"expires": 30.0}},
    "jobs": {"task": "jobs.follow", "schedule": 2.0, "options": {"expires": 2.0}},
    "thin": {"task": "transcripts.thin", "schedule": 120.0, "options": {"expires": 120.0}},
}

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "runs:list"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_NAME = "troupe_session"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 30 * 24 * 3600
CSRF_COOKIE_NAME = "troupe_csrf"
CSRF_COOKIE_HTTPONLY = True  # pages with scripts that post contain the token
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.flag(
    "TROUPE_SECURE_COOKIES", default=TROUPE_PUBLIC_URL.startswith("https:")
)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.behind_proxy() else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TROUPE_PUBLIC_URL.startswith("https:") else 0
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF, UNSAFE_INLINE],  # Plotly writes style elements
        "img-src": [SELF, "data:", "blob:"],  # Plotly's download button
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

TROUPE_IMPORT_PACKAGES = env.words("TROUPE_IMPORT_PACKAGES")
TROUPE_MODEL_FOLDERS = env.folders("TROUPE_MODEL_FOLDERS", "/data")
"""Folders in addition to TROUPE_HOME/models with models that runs may use."""
TROUPE_WEIGHTS_FOLDERS = env.folders("TROUPE_WEIGHTS_FOLDERS")
"""Folders in addition to TROUPE_HOME/weights that runs may write new weights to, for external engines."""
TROUPE_KEY_ADDRESSES = env.words("TROUPE_KEY_ADDRESSES")
"""Addresses other than this machine's own to which runs may send keys of the server's environment."""
TROUPE_RUN_NETWORKS = env.networks("TROUPE_RUN_NETWORKS")
"""Networks in addition to public ones and this machine that judges, engines and rollout buffers of runs may be in."""
METRICS_PER_RUN = env.number("TROUPE_METRICS_PER_RUN", 100_000)
"""Maximum number of metrics of a run."""
TROUPE_WEBHOOK_NETWORKS = env.networks("TROUPE_WEBHOOK_NETWORKS")
"""Networks in addition to public ones that webhooks and channels may connect to; see training_core/config/networks.py."""

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = env.text("TROUPE_STATIC_ROOT", str(TROUPE_HOME / "static"))
STATICFILES_DIRS = [ROOT / "webapp" / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webapp.common.static_files.BundleFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.common.static_files.HashedStaticFiles"},
}

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "webapp.accounts.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["webapp.accounts.authentication.ScopedAccess"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapp.api.parsers.StrictJSONParser"],
    "EXCEPTION_HANDLER": "webapp.site.api_errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Troupe",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "webapp.api.schema.refusals_document",
    ],
    "SERVE_PERMISSIONS": ["webapp.accounts.authentication.ScopedAccess"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "webapp.common.redaction.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("TROUPE_LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},  # several lines per message
        "celery.worker.strategy": {"level": "WARNING"},  # a line per task received,
        "celery.app.trace": {"level": "WARNING"},  # done
        "celery.beat": {"level": "WARNING"},  # and sent, every few seconds
    },
}
