# sandbox-packages: the base, and the packages and data of one environment, as `sandbox-service envs setup` made them.
# 9999 is the group of the environments' processes; agents' processes do not have it and cannot pass the top folder.
ARG BASE=sandbox-base
FROM ${BASE}
COPY --chown=0:9999 environment/ /opt/environment/
RUN mkdir -p /opt/environment/data && chmod 0750 /opt/environment
