# training-sandbox: the service, from wheels in the locked versions (scripts/project_image.py makes them).
# BASE is python:3.11-slim where a registry answers, else the Debian tree of build_base_image.sh.
ARG BASE=python:3.11-slim
FROM ${BASE} AS packages
COPY wheels/ /wheels/
# The base has no pip: it runs from its own wheel. It installs where this Python imports from,
# /usr/local/lib/python3.11/dist-packages for Debian's and site-packages for the official one.
RUN python3 "$(echo /wheels/pip-*.whl)/pip" install --quiet --no-index --no-deps --no-warn-script-location \
    --break-system-packages --root-user-action ignore --root /built /wheels/*.whl

FROM ${BASE}
COPY --from=packages /built/ /
# The id is above those of a machine's own users. The cache is that of this user, so that environments are set up in it.
RUN useradd --uid 10001 --user-group --home-dir /var/lib/sandbox-service --create-home --shell /usr/sbin/nologin service \
 && mkdir -p /var/cache/training-sandbox /etc/sandbox-service \
 && chown 10001:10001 /var/cache/training-sandbox \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
# `envs setup` installs by pip, whose own cache would be beside the service's, where this user cannot write.
ENV HOME=/var/lib/sandbox-service XDG_CACHE_HOME=/var/cache PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1
USER 10001:10001
WORKDIR /var/lib/sandbox-service
VOLUME ["/var/lib/sandbox-service", "/var/cache/training-sandbox"]
EXPOSE 8080
STOPSIGNAL SIGTERM
# Not through http_proxy, which Docker passes to containers and which does not reach their loopback.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
    CMD ["python3", "-c", "from urllib.request import *; build_opener(ProxyHandler({})).open('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["sandbox-service"]
CMD ["serve"]
