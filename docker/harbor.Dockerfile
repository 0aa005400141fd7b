# sandbox-harbor: the code image's content, and the links that lead to a task's folders (harbor/box/layout.py).
ARG BASE=sandbox-base
FROM ${BASE}
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -x '/(test|tests|idlelib|lib2to3|ensurepip|tkinter|turtledemo|site-packages|dist-packages)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
RUN for name in app logs tests solution; do ln -s "/workspace/.task/$name" "/$name" || exit 1; done
COPY box/ /opt/sandbox/
ARG MODULES
RUN ln -s "$(command -v python3)" /opt/sandbox/python3 \
 && /opt/sandbox/python3 -m compileall -q --invalidation-mode unchecked-hash /opt/sandbox \
 && /opt/sandbox/python3 -I -B -c 'import sys, importlib; sys.path[:0] = ["/opt/sandbox", "/opt/environment/packages"]; [importlib.import_module(m) for m in sys.argv[1:]]' ${MODULES}
