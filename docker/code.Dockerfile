# sandbox-code: the runner and the box-side modules of one environment, on the base or on its packages. No secrets.
ARG BASE=sandbox-base
FROM ${BASE}
# Slim bases leave out the byte code of the standard library, and a box's root is read-only: every start, and every
# import of an agent's, would compile it again, and hold a third more memory. Before our own files, so that builds
# share the layer.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -x '/(test|tests|idlelib|lib2to3|ensurepip|tkinter|turtledemo|site-packages|dist-packages)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY box/ /opt/sandbox/
ARG MODULES
# Importing every module here is the proof that the box lacks nothing; the root is read-only later, hence the
# byte code now.
RUN ln -s "$(command -v python3)" /opt/sandbox/python3 \
 && /opt/sandbox/python3 -m compileall -q --invalidation-mode unchecked-hash /opt/sandbox \
 && /opt/sandbox/python3 -I -B -c 'import sys, importlib; sys.path[:0] = ["/opt/sandbox", "/opt/environment/packages"]; [importlib.import_module(m) for m in sys.argv[1:]]' ${MODULES}
