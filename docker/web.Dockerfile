# The web server, and the one-shot that prepares the database. Context: the repository's root.
#   docker build -f docker/web.Dockerfile -t troupe-web .
FROM python:3.11-slim-bookworm

# Indexes of pip, where the default one is not the one to use. It serves PyTorch builds with CUDA libraries, which run
# without a GPU but are large: name an index with CPU builds to have a smaller image.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    OMP_NUM_THREADS=1 TROUPE_HOME=/data

RUN useradd --uid 10001 --create-home troupe && install -d -o troupe -g troupe /data
WORKDIR /app

COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY training_core training_core
COPY workers workers
COPY webapp webapp
COPY templates templates
COPY static static
COPY manage.py ./
RUN pip install -c constraints.txt -e .

USER troupe
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD \
    python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"
CMD ["uvicorn", "webapp.config.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "off", \
     "--no-access-log", "--no-server-header"]
