"""Files by which an agent learns of its grading, and a solution that leaves marks wherever it can."""

from __future__ import annotations

__all__ = ["HEARD_BY_AN_AGENT", "lay_traces", "remembering"]

_TRACES = """
import os, socket, threading
scratch = {scratch!r}
os.chmod('.', 0o777)
os.makedirs(scratch + '/pit/deeper')
for path in ('memory', scratch + '/memory', scratch + '/pit/memory', scratch + '/pit/deeper/memory'):
    open(path, 'w').close(); os.chmod(path, 0o666)
for path in (scratch + '/pit', scratch + '/pit/deeper'):
    os.chmod(path, 0o777)
os.mkfifo(scratch + '/pipe'); os.chmod(scratch + '/pipe', 0o666)
pipe = os.open(scratch + '/pipe', os.O_RDWR | os.O_NONBLOCK)
ears = []
for name in (scratch + '/ear', '\\0ear-of-' + scratch):
    ears.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    ears[-1].bind(name); ears[-1].setblocking(False)
os.chmod(scratch + '/ear', 0o666)
doors = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
for door in doors:
    door.bind(('', 0)); door.setblocking(False)
doors[1].listen()
os.getcwd(), *(door.getsockname()[1] for door in doors)
"""
HEARD_BY_AN_AGENT = """
def heard(listen):
    try: return listen()
    except BlockingIOError: return b''
marks = [heard(lambda: os.read(pipe, 99)), *(heard(lambda: ear.recv(99)) for ear in ears)]
marks += [heard(lambda: doors[0].recv(99)), heard(lambda: doors[1].accept()[0].recv(99))]
for folder, _, names in [*os.walk('.'), *os.walk(scratch)]:
    for name in names:
        path = folder + '/' + name
        marks += [open(path, 'rb').read()] if os.path.isfile(path) else []
        marks += [os.getxattr(path, key) for key in os.listxattr(path)]
marks.sort(); [mark for mark in marks if b'MARK' in mark and b'def solve' not in mark]
"""
_SOLUTION = """
import os, socket, threading, time
scratch, (workspace, datagrams, streams) = {scratch!r}, {told}
files = [scratch + place for place in ('/mine', '/memory', '/pit/mine', '/pit/memory', '/pit/deeper/memory')]
files += [workspace + '/memory', workspace + '/mine', 'mine', os.environ.get('TMPDIR', '.') + '/mine']
def tried(what, *arguments):
    try: return what(*arguments)
    except OSError: return None
def remember(path):
    with open(path, 'a') as file: file.write('MARK')
def told(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end: end.sendto(b'MARK', name)
def said():
    with socket.socket(type=socket.SOCK_DGRAM) as end: end.sendto(b'MARK', ('127.0.0.1', datagrams))
def called():
    with socket.create_connection(('127.0.0.1', streams), 1) as end: end.sendall(b'MARK')
def pipe():
    end = os.open(scratch + '/pipe', os.O_WRONLY | os.O_NONBLOCK); os.write(end, b'MARK'); os.close(end)
def solve(data):
    known = [path for path in files if tried(lambda: 'MARK' in open(path).read())]
    for path in files:
        tried(remember, path); tried(os.chmod, path, 0o666); tried(os.setxattr, path, 'user.m', b'MARK')
    for name in (scratch + '/ear', '\\0ear-of-' + scratch): tried(told, name)
    tried(pipe); tried(said); tried(called)
    return known
"""


def lay_traces(scratch: str) -> str:
    """A cell that opens workspace and shared folder to everybody, and listens on sockets and a pipe.

    Its output tells ``remembering`` where.
    """
    return _TRACES.format(scratch=scratch)


def remembering(scratch: str, told: str) -> str:
    """A solution that gives the places where an earlier grading left its mark, and leaves one everywhere."""
    return _SOLUTION.format(scratch=scratch, told=told.strip())
