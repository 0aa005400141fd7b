# training-sandbox-trainer: trainer and rollout engines, from wheels in the locked versions (scripts/project_image.py
# makes them). BASE is python:3.11-slim where a registry answers, else the Debian tree of build_base_image.sh.
ARG BASE=python:3.11-slim
FROM ${BASE} AS packages
COPY wheels/ /wheels/
RUN python3 "$(echo /wheels/pip-*.whl)/pip" install --quiet --no-index --no-deps --no-warn-script-location \
    --break-system-packages --root-user-action ignore --root /built /wheels/*.whl

FROM ${BASE}
ARG LIBRARIES=libnuma1
COPY --from=packages /built/ /
# vLLM for CPUs links libnuma; Triton, which compiles for GPUs, takes a C compiler and Python's headers.
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends ${LIBRARIES} \
 && rm -rf /var/lib/apt/lists/*
# The id is that of the service's image, so that both may share a volume.
RUN useradd --uid 10001 --user-group --home-dir /srv/runs --create-home --shell /usr/sbin/nologin trainer \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
ENV HOME=/srv/runs PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /srv/runs
VOLUME ["/srv/runs"]
ENTRYPOINT ["sandbox-trainer"]
CMD ["--help"]
