# sandbox-code: the runner and the box-side modules of one environment, on the base or on its packages. No secrets.
ARG BASE=sandbox-base
FROM ${BASE}
COPY box/ /opt/sandbox/
ARG MODULES
# Importing every module here is the proof that the box lacks nothing; the root is read-only later, hence the
# byte code now.
RUN ln -s "$(command -v python3)" /opt/sandbox/python3 \
 && /opt/sandbox/python3 -m compileall -q --invalidation-mode unchecked-hash /opt/sandbox \
 && /opt/sandbox/python3 -I -B -c 'import sys, importlib; sys.path[:0] = ["/opt/sandbox", "/opt/environment/packages"]; [importlib.import_module(m) for m in sys.argv[1:]]' ${MODULES}
