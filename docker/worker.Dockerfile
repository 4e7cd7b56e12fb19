# Celery: the worker, and (with another command) beat. Context: the repository's root.
#   docker build -f docker/worker.Dockerfile -t troupe-worker .
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
CMD ["celery", "-A", "webapp.config.celery", "worker", "--pool=threads", "--concurrency=4", "--prefetch-multiplier=1", \
     "--without-gossip", "--without-mingle", "--loglevel=INFO"]
