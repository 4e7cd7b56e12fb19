"""Django's settings, read from the environment (see webapp/config/environment.py and docs/configuration.md).

`manage.py up` fills DATABASE_URL, REDIS_URL and TROUPE_SECRET_KEY where the user has not.
"""

from webapp.config import environment as env

ROOT = env.ROOT
TROUPE_HOME = env.home()
TROUPE_URL = env.text("TROUPE_SERVER_URL", "http://127.0.0.1:8000")
"""Where this server is reached by its own jobs."""
TROUPE_LAUNCHER = env.text("TROUPE_LAUNCHER", "ray")
"""ray, or local: runs as child processes of the worker."""

SECRET_KEY = env.text("TROUPE_SECRET_KEY", "only-for-management-commands-without-a-stack")
DEBUG = env.flag("TROUPE_DEBUG", default=False)
ALLOWED_HOSTS = env.text("TROUPE_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in env.text("TROUPE_TRUSTED_ORIGINS").split(",") if origin]

INSTALLED_APPS = [
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
    "webapp.metrics",
    "webapp.transcripts",
    "webapp.checkpoints",
    "webapp.cluster",
    "webapp.ingest",
    "webapp.live",
    "webapp.api",
    "webapp.stack",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "webapp.config.urls"
ASGI_APPLICATION = "webapp.config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": env.database(env.text("DATABASE_URL", "postgres://troupe@127.0.0.1:5432/troupe"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
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
CSRF_COOKIE_NAME = "troupe_csrf"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = env.text("TROUPE_STATIC_ROOT", str(TROUPE_HOME / "static"))
STATICFILES_DIRS = [ROOT / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webapp.common.finders.PackageFileFinder",
]

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Troupe",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}
