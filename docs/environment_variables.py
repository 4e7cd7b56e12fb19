"""Environment variables that Troupe reads, for docs/reference/configuration.md.

A test compares this list with the names in the source.
"""

Row = tuple[str, str, str]
"""Name, default as the page shows it, meaning."""

GROUPS: list[tuple[str, str, list[Row]]] = [
    (
        "One machine",
        "Read by `make run`, `troupe up` and `manage.py up`.",
        [
            (
                "TROUPE_HOME",
                "`var/` in the checkout",
                "Data folder: database, runs, base models, logs, secrets.",
            ),
            (
                "TROUPE_HOST",
                "`127.0.0.1`",
                "Listen address of the web server. Any other value allows access from other machines.",
            ),
            ("TROUPE_PORT", "`8000`", "Its port; if it is in use, the next free one."),
            ("TROUPE_DEMO", "`1`", "0 does not launch the demonstration at the first start."),
            (
                "TROUPE_BASE_MODEL",
                "`1`",
                "0 does not train the base model at startup; the first run that needs it does.",
            ),
            (
                "TROUPE_LAUNCHER",
                "`ray`",
                "ray, or local: runs are child processes of the worker, without Ray.",
            ),
            (
                "OMP_NUM_THREADS",
                "`1`",
                "Threads per process of the stack; runs use resources.threads instead.",
            ),
            ("TROUPE_LOG_LEVEL", "`INFO`", "Minimum level of lines in the logs of web server and worker."),
        ],
    ),
    (
        "Custom servers",
        "Each address that is set replaces the bundled server.",
        [
            ("DATABASE_URL", "bundled Postgres", "`postgres://user:password@host:port/name`."),
            ("REDIS_URL", "bundled Redis", "`redis://:password@host:6379/0` or `unix:///path/to/socket`."),
            ("RAY_ADDRESS", "local Ray head", "Job API of a Ray cluster: `http://<head node>:8265`."),
            ("RAY_AUTH_TOKEN", "", "Token of that cluster, if it requires one."),
            (
                "TROUPE_RAY_REMOTE",
                "detected",
                "1: the cluster cannot read this checkout, so the code is sent with every run.",
            ),
        ],
    ),
    (
        "Web server",
        "For a server that other machines reach.",
        [
            ("TROUPE_SERVER_URL", "host and port above", "Address of the server for jobs and login links."),
            (
                "TROUPE_SECRET_KEY",
                "generated and stored in TROUPE_HOME",
                "Signs sessions and encrypts addresses of channels and webhooks. Must be equal in all processes of the web application.",
            ),
            (
                "TROUPE_ALLOWED_HOSTS",
                "this machine",
                "Host names under which pages are served, comma-separated.",
            ),
            (
                "TROUPE_TRUSTED_ORIGINS",
                "",
                "Origins whose forms and websockets are accepted: `https://lab.example.org`.",
            ),
            ("TROUPE_SECURE_COOKIES", "1 for an https: address", "1 sends cookies over https only."),
            (
                "TROUPE_BEHIND_PROXY",
                "`0`",
                "1 reads the caller's address and scheme from X-Forwarded-For and X-Forwarded-Proto. Only behind a proxy that sets "
                "both; without 1, failed logins of all users behind a proxy count for the proxy's address.",
            ),
            (
                "TROUPE_PROXY_ADDRESSES",
                "this machine",
                "Addresses or networks of that proxy, comma-separated: `10.0.0.7,172.16.0.0/12`.",
            ),
            (
                "TROUPE_DATABASE_CONNECTIONS",
                "`40`",
                "Maximum number of database connections of the web process; further requests wait up to 5 s for one. 0: one for each "
                "request.",
            ),
            ("TROUPE_STATIC_ROOT", "`static/` in TROUPE_HOME", "Folder for collected static files."),
            (
                "TROUPE_IMPORT_PACKAGES",
                "none",
                "Packages, comma-separated, whose code runs from pages and the API may use by import path. They are sent with a run to "
                "a remote cluster.",
            ),
            (
                "TROUPE_MODEL_FOLDERS",
                "`/data`",
                "Absolute folders, comma-separated, whose models runs from pages and the API may use, in addition to TROUPE_HOME/models. "
                "Empty: none. They give no access to other parts of TROUPE_HOME.",
            ),
            (
                "TROUPE_WEIGHTS_FOLDERS",
                "none",
                "Absolute folders, comma-separated, in which `engine.weights_folder` of such runs may be, in addition to "
                "TROUPE_HOME/weights.",
            ),
            (
                "TROUPE_KEY_ADDRESSES",
                "none",
                "Addresses (`https://host:8443`, comma-separated) other than this machine's own to which such runs may send "
                "`engine.key_variable` and `workflow.token_env`.",
            ),
            (
                "TROUPE_WEBHOOK_NETWORKS",
                "public ones",
                "Further networks that webhooks and channels may use: `10.0.0.0/8,127.0.0.0/8`, or `any`.",
            ),
            (
                "TROUPE_METRICS_PER_RUN",
                "`100000`",
                "Maximum number of metrics of a run. Values under further names are not stored; the run's log reports it.",
            ),
            (
                "TROUPE_DEBUG",
                "`0`",
                "1 shows tracebacks in the browser. Do not use it on a server that others can reach.",
            ),
        ],
    ),
    (
        "Command line and clients",
        "Without them `troupe` uses the values that the stack on this machine wrote to `$TROUPE_HOME/local.json`.",
        [
            ("TROUPE_URL", "from local.json", "Address of the server."),
            ("TROUPE_TOKEN", "from local.json", "An API token, from the API tokens page."),
        ],
    ),
    (
        "Rollout buffer",
        "Read by `troupe buffer serve` and by runs that train on it. See [External rollouts](../train/rollout-buffer.md).",
        [
            (
                "TROUPE_BUFFER_TOKEN",
                "generated at every start",
                "Token of writers and readers. A run on the same machine finds it in `$TROUPE_HOME/rollout_buffer.json`.",
            ),
        ],
    ),
    (
        "Custom programs",
        "Read by `import troupe`; an argument of `troupe.init` takes precedence. See [Custom trainers](../use/client.md).",
        [
            ("TROUPE_PROJECT", "your first", "Slug of the project for runs."),
            ("TROUPE_RUN_ID", "a new one", "Id of the run, so that a restarted job continues it."),
            ("TROUPE_RUN_GROUP", "", "Group of related runs: becomes the tag `group:NAME`."),
            ("TROUPE_MODE", "`online`", "online, offline (`troupe sync` delivers it later), or disabled."),
            ("TROUPE_DIR", "`TROUPE_HOME`", "Folder for events before delivery."),
        ],
    ),
]

INTERNAL = {
    "TROUPE_BUNDLED_RAY",
    "TROUPE_PREFORK",
    "TROUPE_INGEST_TOKEN",
    "TROUPE_SERVED",
    "TROUPE_PG_BINARIES",
    "TROUPE_PREPARED",
    "TROUPE_STACK_ID",
    "TROUPE_STACK_PART",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
    "RAY_JOB_STOP_WAIT_TIME_S",
    "RAY_USAGE_STATS_ENABLED",
}
"""Set by Troupe for its own processes; not for users."""
