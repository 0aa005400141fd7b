# The image of one task: its author's image, the runner with an interpreter of its own, and the links of take_over.sh.
ARG BOX
ARG TASK
FROM ${BOX} AS box
COPY bundle_python.sh /tmp/
RUN sh /tmp/bundle_python.sh /opt/sandbox/python
FROM ${TASK}
USER 0:0
SHELL ["/bin/sh", "-c"]
ARG TASK_WORKDIR=.
ARG TASK_HOLDS_TESTS=
WORKDIR ${TASK_WORKDIR}
COPY take_over.sh /opt/take_over.sh
RUN sh /opt/take_over.sh
COPY --from=box /opt/sandbox /opt/sandbox
ENTRYPOINT []
CMD []
