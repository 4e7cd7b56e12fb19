# A Ray node on CPUs, with what runs need. Context: the repository's root.
#   docker build -f docker/ray.Dockerfile -t troupe-ray .
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
RUN pip install -c constraints.txt -e .

ENV RAY_USAGE_STATS_ENABLED=0
USER troupe
VOLUME /data
EXPOSE 6380 8265
# Anything but --head (a worker node: ray start --block --address=head:6380) replaces the command.
CMD ["ray", "start", "--head", "--block", "--port=6380", "--dashboard-host=0.0.0.0", "--dashboard-port=8265", \
     "--disable-usage-stats"]
