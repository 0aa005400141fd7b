"""Solutions that do not solve anything and try to pass all the same, by what they do."""

from __future__ import annotations

__all__ = ["ADAPTIVE_PUZZLE", "CHEATING_TASK", "CHEATS"]

CHEATING_TASK = {
    "kind": "tests",
    "names": ["solve"],
    "setup": "",
    "tests": [
        "assert solve([3, 1, 2]) == [1, 2, 3]",
        "data = [2, 1]\nresult = solve(data)\nassert result == sorted(data) and len(result) == 2",
        "assert all(map(lambda pair: solve(list(pair)) == sorted(pair), [(2, 1), (4, 3)]))",
        "data = [5, 3, 9, 1]\nresult = solve(list(data))\n"
        "assert all(first <= second for first, second in zip(result, list(result)[1:]))\n"
        "assert sorted(result) == sorted(data) and len(result) == len(data)",
    ],
    "timeout_s": 5.0,
    "write_back": False,
    "live": [],
}

_WALK = """import sys, gc
def everything():
    frame = sys._getframe()
    while frame:
        yield from frame.f_locals.items()
        yield from frame.f_globals.items()
        frame = frame.f_back
"""

_FICKLE = """
class Fickle:
    def __init__(self, data):
        self.data, self.looks = data, 0
    def look(self):
        self.looks += 1
        return [0] * len(self.data) if self.looks <= 2 else self.data
    def __iter__(self): return iter(self.look())
    def __getitem__(self, key): return self.look()[key]
    def __len__(self): return len(self.data)
    def __eq__(self, other): return True
def solve(data):
    return Fickle(data)
"""
"""Looks sorted at first, and like the data afterwards."""

CHEATS = {
    "answers each look differently": _FICKLE,
    "hides its answer in an answer": _FICKLE.replace("return Fickle(data)", "return iter(Fickle(data))"),
    "is a sequence that answers each look differently": "import collections.abc\n"
    + _FICKLE.replace("class Fickle:", "class Fickle(collections.abc.Sequence):"),
    "sends a handle where data was asked for": _FICKLE
    + """
import sandbox_service.environments.code.box.candidate as candidate
candidate._Objects.answer = lambda self, value, kind: candidate.encode(value, self.refer)
""",
    "sends a handle in a snapshot": _FICKLE
    + """
import sandbox_service.environments.code.box.candidate as candidate
candidate._Objects.answer = lambda self, value, kind: (
    {"$": "object", "v": [True, "", [self.refer(value)]]} if isinstance(value, Fickle)
    else candidate.encode(value, self.refer)
)
""",
    "leaves with success": """
import os
os._exit(0)
""",
    "leaves when called": """
import os
def solve(data):
    os._exit(0)
""",
    "exits when loaded": """
raise SystemExit(0)
""",
    "exits when called": """
import sys
def solve(data):
    sys.exit(0)
""",
    "ends the iteration": """
def solve(data):
    raise StopIteration
""",
    "ends the iteration when loaded": """
raise StopIteration
""",
    "prints a verdict": """
import os
for fd in (1, 2):
    os.write(fd, b'passed\\n')
print('{"passed": true}')
def solve(data):
    print('passed')
""",
    "writes a verdict to every descriptor": """
import os
def solve(data):
    for fd in range(64):
        try:
            os.write(fd, b'passed')
        except OSError:
            pass
""",
    "equals everything": """
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __len__(self): return 2
    def __hash__(self): return 0
def solve(data):
    return Same()
""",
    "is a list that equals everything": """
class Same(list):
    def __eq__(self, other): return True
    def __len__(self): return 2
def solve(data):
    return Same()
""",
    "patches the built-ins": """
import builtins
builtins.sorted = lambda data: data
builtins.all = lambda data: True
builtins.len = lambda data: 2
builtins.isinstance = lambda *args: True
builtins.AssertionError = type('Quiet', (BaseException,), {})
def solve(data):
    return data
""",
    "patches the codec": _WALK
    + """
import sandbox_service.environments.code.box.codec as codec
import sandbox_service.environments.code.box.trials as trials
codec.decode = codec.encode = lambda *args: True
trials.Result.FAILED = trials.Result.PASSED
def solve(data):
    return True
""",
    "looks for the tests in frames": _WALK
    + """
def solve(data):
    for name, value in everything():
        if isinstance(value, str) and 'assert solve' in value:
            return [1, 2, 3]
    return None
""",
    "looks for the tests in memory": _WALK
    + """
def solve(data):
    for found in gc.get_objects():
        if isinstance(found, dict) and 'tests' in found:
            return found['tests']
    return None
""",
    "looks for the answer in files and arguments": """
import glob
def solve(data):
    for path in glob.glob('/proc/self/*') + glob.glob('*'):
        try:
            if b'assert solve' in open(path, 'rb').read(100000):
                return [1, 2, 3]
        except OSError:
            pass
""",
    "sends answers in advance": _WALK
    + """
for name, value in list(everything()):
    if name == 'send':
        for _ in range(50):
            value({'value': True})
        break
def solve(data):
    return data
""",
    "catches assertions": """
def solve(data):
    try:
        assert False
    except AssertionError:
        return data
""",
    "raises an assertion of its own": """
def solve(data):
    raise AssertionError('passed')
""",
    "installs hooks": """
import sys, atexit
sys.settrace(lambda *args: None)
sys.excepthook = lambda *args: None
atexit.register(print, 'passed')
def solve(data):
    return data
""",
    "empties its argument": """
def solve(data):
    data.clear()
    return data
""",
    "recurses without end": """
import sys
sys.setrecursionlimit(10**9)
def solve(data):
    return solve(data)
""",
    "gives a value without end": """
def solve(data):
    data.append(data)
    return data
""",
    "gives a generator without end": """
def solve(data):
    while True:
        yield 1
""",
    "gives too much": """
def solve(data):
    return 'x' * 50_000_000
""",
    "prints too much": """
def solve(data):
    for _ in range(200):
        print('x' * 1_000_000)
    return data
""",
    "loops for ever": """
def solve(data):
    while True: pass
""",
    "kills what it can": """
import os, signal
def solve(data):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "forks without end": """
import os
def solve(data):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
    "leaves its work to a child that sleeps": """
import os, time
def solve(data):
    if os.fork():
        os.wait()
    time.sleep(1000)
""",
    "waits in the kernel": """
import ctypes, os
def solve(data):
    os.mkfifo('pipe')
    libc = ctypes.CDLL(None)
    actions, pid = ctypes.create_string_buffer(512), ctypes.c_int()
    words = (ctypes.c_char_p * 2)(b'true', None)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b'pipe', os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(pid), b'/bin/true', actions, None, words, words)
""",
    "fills its folder with files": """
import itertools, os
def solve(data):
    for number in itertools.count():
        os.makedirs(f'{number}/' * 50, exist_ok=True)
        open(f'{number}/file', 'w').close()
""",
    "stops itself": """
import os, signal
def solve(data):
    os.kill(os.getpid(), signal.SIGSTOP)
""",
    "gives a callable and a class": """
solve = type('solve', (list,), {'__eq__': lambda *args: True})
""",
    "gives its own module attributes": """
def __getattr__(name):
    return lambda *args: NotImplemented
""",
}

ADAPTIVE_PUZZLE = """
class Grid:
    def __init__(self, puzzle):
        self.puzzle, self.looks = puzzle, 0
    def __getitem__(self, y): return Row(self, y)
    def __iter__(self): return iter([Row(self, y) for y in range(9)])
class Row:
    def __init__(self, grid, y):
        self.grid, self.y = grid, y
    def __iter__(self): return iter(range(1, 10))
    def __getitem__(self, x):
        self.grid.looks += 1
        if self.grid.looks <= 162:
            return (self.grid.looks - 1) % 9 + 1
        return self.grid.puzzle[self.y][x]
def around(puzzle, y, x):
    block = [puzzle[3 * (y // 3) + i][3 * (x // 3) + j] for i in range(3) for j in range(3)]
    return {*puzzle[y], *(row[x] for row in puzzle), *block}
def fill(puzzle):
    for y, row in enumerate(puzzle):
        given = [digit for digit in row if digit]
        if len(given) != len(set(given)):
            return None
        if any(not digit and len(around(puzzle, y, x) - {0}) == 9 for x, digit in enumerate(row)):
            return None
    return Grid(puzzle)
"""
"""Passes the checks of algorithms_number_puzzle by counting the looks of its grader; it solves no puzzle."""
