# The image of both roles: Python, what requirements/image.txt locks, and gpuledger. No shell, no pip, no compiler.
#
#   docker build -t gpuledger .        or: make image, which needs no registry
#
# Pin the bases by digest where you build for production: --build-arg RUNTIME_IMAGE=…@sha256:…
# Both must have the same minor version of Python; the second has it as /usr/bin/python3.
ARG BUILD_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/python3-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY requirements/build.txt requirements/image.txt requirements/
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements/build.txt \
 && /venv/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes --no-compile \
      --target /opt/gpuledger -r requirements/image.txt \
 && rm -rf /opt/gpuledger/bin
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
# Compiled here, because the root file system is read-only there.
RUN /venv/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation -w dist . \
 && /venv/bin/pip install --no-index --no-deps --no-compile --target /opt/gpuledger dist/*.whl \
 && sed -i '1s|.*|#!/usr/bin/python3|' /opt/gpuledger/bin/gpuledger \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpuledger

FROM ${RUNTIME_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpuledger" \
      org.opencontainers.image.description="The books of every GPU in a Kubernetes cluster, kept in Prometheus." \
      org.opencontainers.image.source="https://github.com/gpuledger/gpuledger" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/gpuledger /opt/gpuledger
ENV PATH=/opt/gpuledger/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/gpuledger \
    PYTHONUNBUFFERED=1
# The node role is run as root without capabilities: docs/security.md.
USER 65532:65532
EXPOSE 9440 9441
ENTRYPOINT ["gpuledger"]
