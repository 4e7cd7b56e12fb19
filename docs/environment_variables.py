"""What Troupe reads from the process environment, for docs/configuration.md.

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
                "Address the web server listens on. Anything else lets other machines in.",
            ),
            ("TROUPE_PORT", "`8000`", "Its port; the next free one where it is taken."),
            ("TROUPE_DEMO", "`1`", "0 does not launch the demonstration at the first start."),
            (
                "TROUPE_BASE_MODEL",
                "`1`",
                "0 does not make the base model at the start; the first run that needs it does.",
            ),
            (
                "TROUPE_LAUNCHER",
                "`ray`",
                "ray, or local: runs are child processes of the worker, without Ray.",
            ),
            (
                "OMP_NUM_THREADS",
                "`1`",
                "Threads per process of the stack; runs take resources.threads instead.",
            ),
            ("TROUPE_LOG_LEVEL", "`INFO`", "Least severe line in the logs of web server and worker."),
        ],
    ),
    (
        "Servers of your own",
        "Each address that is given replaces the bundled server.",
        [
            ("DATABASE_URL", "bundled Postgres", "`postgres://user:password@host:port/name`."),
            ("REDIS_URL", "bundled Redis", "`redis://:password@host:6379/0` or `unix:///path/to/socket`."),
            ("RAY_ADDRESS", "local Ray head", "Job API of a Ray cluster: `http://<head node>:8265`."),
            ("RAY_AUTH_TOKEN", "", "Token of that cluster, where it asks for one."),
            (
                "TROUPE_RAY_REMOTE",
                "found out",
                "1: the cluster does not see this checkout, so the code is sent along with every run.",
            ),
        ],
    ),
    (
        "Web server",
        "For a server that others reach.",
        [
            ("TROUPE_SERVER_URL", "host and port above", "Where jobs and login links reach the server."),
            (
                "TROUPE_SECRET_KEY",
                "made and kept in TROUPE_HOME",
                "Signs sessions and encrypts addresses of channels and webhooks. The same on every process of the web side.",
            ),
            ("TROUPE_ALLOWED_HOSTS", "this machine", "Host names under which pages are served, with commas."),
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
                "both; without 1, failed logins of all people behind a proxy count for the proxy's one address.",
            ),
            (
                "TROUPE_PROXY_ADDRESSES",
                "this machine",
                "Addresses or networks of that proxy, with commas: `10.0.0.7,172.16.0.0/12`.",
            ),
            ("TROUPE_STATIC_ROOT", "`static/` in TROUPE_HOME", "Where static files are collected."),
            (
                "TROUPE_IMPORT_PACKAGES",
                "none",
                "Packages, with commas, whose code runs from pages and the API may name by import path. They travel with a run to "
                "a remote cluster.",
            ),
            (
                "TROUPE_MODEL_FOLDERS",
                "`/data`",
                "Absolute folders, with commas, whose models runs from pages and the API may name, beside TROUPE_HOME/models. "
                "Empty: none. Of TROUPE_HOME they open nothing else.",
            ),
            (
                "TROUPE_WEIGHTS_FOLDERS",
                "none",
                "Absolute folders, with commas, below which `engine.weights_folder` of such runs may lie, beside "
                "TROUPE_HOME/weights.",
            ),
            (
                "TROUPE_KEY_ADDRESSES",
                "none",
                "Addresses (`https://host:8443`, with commas) other than this machine's own to which such runs may send "
                "`engine.key_variable` and `workflow.token_env`.",
            ),
            (
                "TROUPE_WEBHOOK_NETWORKS",
                "public ones",
                "Networks that webhooks and channels may go to besides: `10.0.0.0/8,127.0.0.0/8`, or `any`.",
            ),
            ("TROUPE_DEBUG", "`0`", "1 shows tracebacks in the browser. Never where others can reach it."),
        ],
    ),
    (
        "Command line and clients",
        "Without them `troupe` uses what the stack on this machine wrote to `$TROUPE_HOME/local.json`.",
        [
            ("TROUPE_URL", "from local.json", "Address of the server."),
            ("TROUPE_TOKEN", "from local.json", "An API token, from the page API tokens."),
        ],
    ),
    (
        "Rollout buffer",
        "Read by `troupe buffer` and by runs that learn from it. See [Rollouts from outside](rollout-buffer.md).",
        [
            (
                "TROUPE_BUFFER_TOKEN",
                "made anew at every start",
                "What writers and readers show. A run on the same machine finds it in `$TROUPE_HOME/rollout_buffer.json`.",
            ),
        ],
    ),
    (
        "Your own program",
        "Read by `import troupe`; an argument of `troupe.init` counts more. See [Your own trainer](client.md).",
        [
            ("TROUPE_PROJECT", "your first", "Slug of the project that runs go to."),
            ("TROUPE_RUN_ID", "a new one", "Id of the run, so that a restarted job goes on with it."),
            ("TROUPE_RUN_GROUP", "", "Runs that belong together: becomes the tag `group:NAME`."),
            ("TROUPE_MODE", "`online`", "online, offline (`troupe sync` delivers it later), or disabled."),
            ("TROUPE_DIR", "`TROUPE_HOME`", "Where events are kept before they are delivered."),
        ],
    ),
]

INTERNAL = {
    "TROUPE_BUNDLED_RAY",
    "TROUPE_FORK_SERVER",
    "TROUPE_INGEST_TOKEN",
    "TROUPE_SERVED",
    "TROUPE_PG_BINARIES",
    "TROUPE_STACK_ID",
    "TROUPE_STACK_PART",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
    "RAY_JOB_STOP_WAIT_TIME_S",
    "RAY_USAGE_STATS_ENABLED",
}
"""Set by Troupe for its own processes; nobody else sets them."""
