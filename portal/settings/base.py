"""Settings that every installation shares, and the one table of what the environment may say."""

from pathlib import Path

import environ
from django.utils.translation import gettext_lazy as _

BASE_DIR = Path(__file__).resolve().parents[2]

env = environ.Env(
    DATABASE_URL=(str, "postgresql://muster@localhost/muster"),
    REDIS_URL=(str, "redis://localhost:6379/0"),
    MUSTER_SECRET_KEY=(str, ""),
    MUSTER_ALLOWED_HOSTS=(list, ["localhost", "127.0.0.1"]),
    MUSTER_TRUSTED_ORIGINS=(list, []),
    MUSTER_BASE_URL=(str, "http://127.0.0.1:8000"),
    MUSTER_DATA_DIR=(str, str(BASE_DIR / ".data")),
    MUSTER_SIMCLUSTER_URL=(str, ""),
    MUSTER_SIMCLUSTER_TOKEN=(str, ""),
    MUSTER_BIND_TIMEOUT_SECONDS=(int, 30),
    MUSTER_MAIL_URL=(str, "dummymail://"),
    MUSTER_WEBHOOK_INTERNAL_HOSTS=(list, []),
    MUSTER_MAIL_FROM=(str, "Muster <muster@localhost>"),
    MUSTER_LOG_LEVEL=(str, "INFO"),
    KUBERNETES_SERVICE_HOST=(str, ""),  # stands in every pod
    MUSTER_ALIVE_FILE=(str, ""),
)

SECRET_KEY = env("MUSTER_SECRET_KEY")
DEBUG = False
ALLOWED_HOSTS = env("MUSTER_ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = env("MUSTER_TRUSTED_ORIGINS")
BASE_URL = env("MUSTER_BASE_URL")
DATA_DIR = Path(env("MUSTER_DATA_DIR"))
IS_IN_A_CLUSTER = bool(env("KUBERNETES_SERVICE_HOST"))
SIMCLUSTER_URL = env("MUSTER_SIMCLUSTER_URL")
SIMCLUSTER_TOKEN = env("MUSTER_SIMCLUSTER_TOKEN")
IS_DEMO = False  # dev.py alone says otherwise: whatever the environment holds
BIND_TIMEOUT_SECONDS = env("MUSTER_BIND_TIMEOUT_SECONDS")
ALIVE_FILE = env("MUSTER_ALIVE_FILE")

# smtp+tls://USER:PASSWORD@HOST:587 and the like; without one no mail leaves, and pages say so.
_mail = env.email_url("MUSTER_MAIL_URL")
globals().update(_mail)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env("MUSTER_MAIL_FROM")
# Hosts that webhooks may lead to although they are in a private network, or speak no TLS.
WEBHOOK_INTERNAL_HOSTS = [host.lower() for host in env("MUSTER_WEBHOOK_INTERNAL_HOSTS")]
SENDS_MAIL = not _mail["EMAIL_BACKEND"].endswith("dummy.EmailBackend")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "portal.core",
    "topology",
    "tenants",
    "scheduling",
    "portal.embedded",
    "portal.site",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "portal.core.middleware.RequestIdMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tenants.web.acting.ActingMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.site.middleware.PreferencesMiddleware",
    "portal.site.middleware.RefusalMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
ASGI_APPLICATION = "portal.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.site.context.page",
            ],
            "libraries": {
                "jobs": "scheduling.web.tags",
                "quotas": "scheduling.web.quota.tags",
                "operators": "scheduling.web.operators.tags",
                "layouts": "scheduling.web.layouts.tags",
            },
        },
    },
]

DATABASES = {"default": env.db_url()}
# Session advisory locks need a connection that stays ours: no pooling between us and PostgreSQL.
DATABASES["default"].update({"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True})
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "tenants.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
CSRF_FAILURE_VIEW = "portal.site.errors.csrf_failed"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

CACHES = {
    "default": {
        "BACKEND": "portal.core.cache.PatientCache",
        "LOCATION": env("REDIS_URL"),
        "KEY_PREFIX": "muster",
    },
}
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.core.api.handle_exception",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Muster",
    "DESCRIPTION": "GPU quota, jobs and nodes of a Muster portal.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "DEFAULT_GENERATOR_CLASS": "portal.core.api.kept_schema.KeptSchemaGenerator",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "Level": "scheduling.models.Level.choices",
        "JobState": "scheduling.states.JobState.choices",
        "QuotaRequestState": "tenants.states.RequestState.choices",
    },
}

CELERY_BROKER_URL = (
    "redis+socket://" + env("REDIS_URL").removeprefix("unix://")
    if env("REDIS_URL").startswith("unix://")
    else env("REDIS_URL")
)
# A worker killed in the middle of a task leaves its message unacknowledged: it comes back after
# the visibility time-out, which must exceed the longest task.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "portal.core.liveness:LivingScheduler"
CELERY_BEAT_SCHEDULE = {
    "cycles": {"task": "scheduling.run_cycles", "schedule": 10.0},
    "reconcile": {"task": "scheduling.reconcile", "schedule": 10.0},
    "layouts": {"task": "scheduling.find_lost_changes", "schedule": 5.0},
    "grants": {"task": "tenants.advance_grants", "schedule": 60.0},
    "checks": {"task": "topology.check_clusters", "schedule": 1800.0},
    "tenancies": {"task": "tenants.keep_tenancies", "schedule": 300.0},
    "requests-told": {"task": "tenants.tell_people", "schedule": 10.0},
    "jobs-told": {"task": "scheduling.tell_people", "schedule": 5.0},
    "mail": {"task": "tenants.send_mail", "schedule": 60.0},
    "webhooks": {"task": "tenants.send_webhooks", "schedule": 30.0},
    "invitations": {"task": "tenants.mail_invitations", "schedule": 60.0},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env("MUSTER_LOG_LEVEL")},
}
