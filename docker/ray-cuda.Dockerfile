# A Ray node with GPUs: PyTorch's and vLLM's wheels bring CUDA's libraries; the host brings the driver and
# NVIDIA's container toolkit. Context: the repository's root.
#   docker build -f docker/ray-cuda.Dockerfile -t troupe-ray-cuda .
FROM python:3.11-slim-bookworm

# Indexes of pip, where the default one (whose PyTorch builds have CUDA libraries) is not the one to use.
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
RUN pip install -c constraints.txt -e ".[gpu]"

ENV RAY_USAGE_STATS_ENABLED=0 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER troupe
VOLUME /data
EXPOSE 6380 8265
CMD ["ray", "start", "--head", "--block", "--port=6380", "--dashboard-host=0.0.0.0", "--dashboard-port=8265", \
     "--disable-usage-stats"]
