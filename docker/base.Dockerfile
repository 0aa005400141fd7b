# sandbox-base: an interpreter, a shell and the core utilities, without a single setuid file.
# BASE is python:3.11-slim where a registry answers, else the Debian tree of build_base_image.sh.
ARG BASE=python:3.11-slim
FROM ${BASE}
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /var/lib/apt/lists /var/cache/apt /var/log/* /root/.cache /tmp/* /var/tmp/* \
 && mkdir -p /opt/sandbox /run/sandbox /workspace \
 && chmod 1777 /workspace \
 && python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
 && bash -c 'sort --version > /dev/null'
