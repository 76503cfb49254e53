# SPDX-License-Identifier: LGPL-2.1-or-later
"""The package without a framework, on the host backend."""

import copy
import ctypes
import errno
import inspect
import multiprocessing
import os
import pickle
import re
import shlex
import subprocess
import sys
import textwrap
import threading
import unittest
import unittest.mock

import vpmm
from vpmm import _blocks, _header, _library, _snapshot

SOURCE = os.environ["top_srcdir"]
INCLUDE = os.path.join(SOURCE, "include")
HEADERS = "vpmm.h", "vpmm-shared.h"
MIB = 1 << 20


class Header(unittest.TestCase):
    """What the package knows of the library's headers is what they say."""

    def test_generated(self):
        output = os.path.join(os.environ["work"], "_header.py")
        subprocess.run([sys.executable, os.path.join(SOURCE, "python", "generate.py"),
                        *(os.path.join(INCLUDE, name) for name in HEADERS), output], check=True)
        with open(output, encoding="utf-8") as mine, open(_header.__file__, encoding="utf-8") as kept:
            self.assertEqual(mine.read(), kept.read(), "python/generate.py has to write python/vpmm/_header.py anew")

    @unittest.skipUnless(os.environ.get("CC"), "there is no C compiler")
    def test_compiled(self):
        # By a compiler: the place and the size of each field, and each number.
        lines, wanted = [], []
        for name, kind in vars(_header).items():
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
                struct = "struct vpmm" + re.sub("([A-Z])", r"_\1", name[1:]).lower()
                lines.append(f'printf("{name} %zu\\n", sizeof({struct}));')
                wanted.append(f"{name} {ctypes.sizeof(kind)}")
                for field, _ in kind._fields_:
                    place = getattr(kind, field)
                    lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({struct}, {field}), '
                                 f"sizeof((({struct} *)0)->{field}));")
                    wanted.append(f"{name}.{field} {place.offset} {place.size}")
            elif isinstance(kind, int):
                lines.append(f'printf("{name} %lld\\n", (long long)VPMM_{name});')
                wanted.append(f"{name} {kind}")
        self.assertGreater(len(wanted), 100)
        source = os.path.join(os.environ["work"], "header.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("".join(f'#include "{name}"\n' for name in HEADERS) + "int main(void)\n{\n" +
                       "\n".join(lines) + "\n}\n")
        subprocess.run([*shlex.split(os.environ["CC"]), f"-I{INCLUDE}", "-o", source[:-2], source], check=True)
        said = subprocess.run([source[:-2]], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.splitlines(), wanted)


    def test_complete(self):
        # Each option is a keyword, and each call is made somewhere, but for those that are for C alone.
        keywords = set(inspect.signature(vpmm.Pool).parameters)
        self.assertEqual({name for name, _ in _header.COpts._fields_} - keywords, {"size", "log_data", "pressure_data"})
        package = os.path.dirname(vpmm.__file__)
        text = ""
        for name in set(os.listdir(package)) - {"_header.py"}:
            if name.endswith(".py"):
                with open(os.path.join(package, name), encoding="utf-8") as file:
                    text += file.read()
        made = set(re.findall(r"\blib\.(vpmm_\w+)", text))
        self.assertEqual(set(_header.CALLS) - made, {
            # vpmm_malloc_flags() is that with flags; a context goes before its pools only where C is at work; who serves
            # a touch, or pauses the process, could not wait for Python; and PyTorch's object keeps what is lent.
            "vpmm_malloc", "vpmm_pool_abandon", "vpmm_mirror_register", "vpmm_mirror_unregister", "vpmm_pause_guard",
            "vpmm_lend_key"})


class Names(unittest.TestCase):
    def test_public(self):
        # All that is public is shown by the name that it has for the user.
        for name in vpmm.__all__:
            module = getattr(getattr(vpmm, name), "__module__", "vpmm")
            self.assertEqual(module, "vpmm", name)
        self.assertEqual(repr(vpmm.Stats), "<class 'vpmm.Stats'>")
        self.assertRegex(repr(vpmm.default_pool()), "^<vpmm.Calls object")
        self.assertEqual(pickle.loads(pickle.dumps(vpmm.stats())), vpmm.stats())

    def test_nul(self):
        # Never the part of a name before it. All options that are text, as the header has them.
        name = os.path.join(os.environ["work"], "part\0of.trace")
        texts = [field for field, kind in _header.COpts._fields_ if kind is ctypes.c_char_p]
        self.assertIn("trace", texts)
        for field in texts:
            for value in name, name.encode(), "host\0":
                with self.assertRaisesRegex(ValueError, f"^{field}=.*NUL"):
                    vpmm.Pool(**{field: value})
        with self.assertRaisesRegex(ValueError, "^trace=.*NUL"):
            vpmm.trace(name)
        self.assertFalse(os.path.exists(name.split("\0", 1)[0]))
        self.assertNotIn("VPMM_TRACE", os.environ)


class PoolTest(unittest.TestCase):
    def setUp(self):
        self.pool = vpmm.Pool(backend="host", va_size="1G")
        self.addCleanup(self.pool.close)

    def test_malloc(self):
        # A block can be written, found and freed.
        a = self.pool.malloc(3 * MIB + 5)
        ctypes.memset(a, 1, 3 * MIB + 5)
        self.assertEqual(vpmm.lookup(a + 100), vpmm.Allocation(device=0, base=a, bytes=3 * MIB + 5))
        self.assertEqual(self.pool.stats().requested, 3 * MIB + 5)
        self.pool.check()
        self.pool.free(a)
        self.assertEqual(self.pool.stats().requested, 0)
        with self.assertRaises(vpmm.Error) as caught:
            vpmm.lookup(a)
        self.assertEqual(caught.exception.errno, errno.EINVAL)

    def test_nothing(self):
        self.assertEqual(self.pool.malloc(0), 0)
        self.pool.free(0)
        with self.assertRaises(ValueError):
            self.pool.malloc(-1)
        with self.assertRaises(TypeError):
            self.pool.malloc("1M")

    def test_whole(self):
        # A number of another type, as NumPy has them, and one that a size_t does not hold: not what is left of it.
        class Number:
            def __index__(self):
                return MIB

        a = self.pool.malloc(Number())
        self.assertEqual(vpmm.lookup(a).bytes, MIB)
        for more in (0, 5, MIB):
            with self.assertRaises(vpmm.OutOfMemoryError):
                self.pool.malloc((1 << 64) + more)
            with self.assertRaises(vpmm.OutOfMemoryError):
                self.pool.realloc(a, (1 << 64) + more)
            with self.assertRaises(vpmm.OutOfMemoryError):
                _blocks.allocate((1 << 64) + more, 0)
        for size in (1 << 1001, 1 << 20000):
            with self.assertRaises(vpmm.OutOfMemoryError):
                self.pool.malloc(size)
            with self.assertRaises(vpmm.OutOfMemoryError):
                self.pool.realloc(a, size)
        self.assertEqual(vpmm.lookup(a).bytes, MIB)
        for error, call, *arguments in (
                (ValueError, self.pool.free, (1 << 64) + a), (ValueError, self.pool.free, a, 1 << 64),
                (ValueError, self.pool.use, (1 << 64) + a, 0), (ValueError, vpmm.lookup, (1 << 64) + a),
                (ValueError, self.pool.realloc, (1 << 64) + a, 5), (ValueError, self.pool.trim, 1 << 64),
                (ValueError, self.pool.set_peers, [1 << 32]), (ValueError, self.pool.retire_graph, 1 << 64),
                (TypeError, self.pool.free, "text"), (TypeError, self.pool.free, a, 1.5)):
            with self.assertRaises(error, msg=str(arguments)):
                call(*arguments)
        self.assertEqual(self.pool.stats().requested, MIB)
        self.pool.free(a)

    def test_zero(self):
        a = self.pool.malloc(MIB)
        ctypes.memset(a, 0x5A, MIB)
        self.pool.free(a)
        b = self.pool.malloc(MIB, zero=True)
        self.assertEqual(b, a)
        self.assertEqual(ctypes.string_at(b, MIB), bytes(MIB))

    def test_realloc(self):
        a = self.pool.malloc(MIB)
        ctypes.memset(a, 7, MIB)
        b = self.pool.realloc(a, 40 * MIB)
        self.assertEqual(ctypes.string_at(b, MIB), b"\7" * MIB)
        self.assertEqual(vpmm.lookup(b).bytes, 40 * MIB)
        self.pool.free(b, vpmm.STREAM_ANY)

    def test_errors(self):
        # The number, the text of the library, and a kind of its own for want of memory.
        with self.assertRaises(vpmm.Error) as caught:
            self.pool.free(4096)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertIn("vpmm_free: ", str(caught.exception))
        self.assertNotIsInstance(caught.exception, MemoryError)
        with self.assertRaises(vpmm.OutOfMemoryError) as caught:
            self.pool.malloc(1 << 50)
        self.assertIsInstance(caught.exception, MemoryError)
        self.assertIn("try this", str(caught.exception))

    def test_trim(self):
        self.pool.free(self.pool.malloc(8 * MIB))
        self.assertGreaterEqual(self.pool.stats().mapped, 8 * MIB)
        self.assertGreaterEqual(self.pool.trim("4M"), 2 * MIB)
        self.pool.set_limit("32M")
        self.assertEqual(self.pool.info().limit, 32 * MIB)
        self.pool.set_limit()
        self.pool.trim()
        self.assertEqual(self.pool.stats().mapped, 0)
        self.assertGreaterEqual(self.pool.stats().peak_taken, 8 * MIB)
        self.pool.reset_peaks()
        self.assertEqual(self.pool.stats().peak_taken, 0)

    def test_dump(self):
        a = self.pool.malloc(2 * MIB)
        self.assertIn("backend: host\n", self.pool.dump())
        self.assertIn("[+", self.pool.dump())
        self.pool.free(a)

    def test_closed(self):
        self.pool.close()
        self.pool.close()
        with self.assertRaisesRegex(vpmm.Error, "closed"):
            self.pool.malloc(1)


    def test_initialised(self):
        # More than once, or never, as a class of the program's own may have it.
        lines = []
        self.pool.__init__(backend="host", va_size="1G", log=lambda level, line: lines.append(line), log_level="info")
        block = self.pool.malloc(3 * MIB)
        self.pool.__init__(backend="host", va_size="1G")
        self.assertIn("pool destroyed after 1 allocations", lines)
        with self.assertRaises(vpmm.Error):
            vpmm.lookup(block)
        with vpmm.Pool.__new__(vpmm.Pool) as never, self.assertRaisesRegex(vpmm.Error, "closed"):
            never.malloc(1)

    def test_copied(self):
        # A copy would be a second owner. One of the default pool owns nothing.
        block = _blocks.Block(5000, _blocks.Stream(0))
        for owner, name in ((self.pool, "pool"), (block, "block")):
            for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, f"^a {name} cannot be copied or pickled$"):
                    duplicate(owner)
        self.assertEqual(self.pool.stats().mallocs, 0)
        self.assertEqual(copy.copy(vpmm.default_pool()).stats(), vpmm.stats())


class Options(unittest.TestCase):
    def open(self, **options):
        pool = vpmm.Pool(backend="host", va_size="1G", **options)
        self.addCleanup(pool.close)
        return pool

    def test_given(self):
        info = self.open(page_size="4M", limit=64 * MIB, keep="none", reuse="block", scrub="always", overlap="auto",
                         overhead=3, small="driver", log_level="warning", device=0).info()
        self.assertEqual((info.backend, info.page_size, info.limit, info.keep), ("host", 4 * MIB, 64 * MIB, "none"))
        self.assertEqual((info.reuse, info.scrub, info.overhead, info.small, info.log_level),
                         ("block", "always", 3, "driver", "warning"))
        self.assertEqual((info.va_size, info.overlap, info.peers), (1 << 30, "auto", ()))

    def test_again(self):
        # What info() says of a pool makes another pool of the same settings.
        names = set(inspect.signature(vpmm.Pool).parameters) & set(vpmm.Info._fields) - {"trace"}
        self.assertGreater(len(names), 14)
        for options in ({}, {"limit": "32M", "keep": "none", "overlap": "none", "small": "driver"},
                        {"keep": "4M", "overlap": 30, "scrub": "stream", "export_as": "fd", "log_level": "error"},
                        {"limit": "none", "keep": "all", "overlap": "auto", "reuse": "block", "frag_ratio": 7}):
            first = self.open(**options).info()
            pool = vpmm.Pool(**{name: getattr(first, name) for name in names})
            self.addCleanup(pool.close)
            self.assertEqual(pool.info(), first)

    def test_text(self):
        # An option takes the text that the variable takes, to the same effect, and no other.
        texts = ("0", "1", "50", "4096", "2M", "2m", "4194304", "1G", "64M", "100%", "50%", "050%", "0%", "101%", "%",
                 "1.5M", "-1", "+1", " 1", "1 ", "M", "2MB", "0x10", "none", "all", "auto", "async", "block",
                 "always", "pool", "stream", "off", "on", "1,", "0,0", "\u0663", "99999999999999999999", "16777216T")
        variables = {name: name.upper() for name in (
            "page_size", "va_size", "pages", "reuse", "extent_max", "small", "frag_ratio", "overhead", "overlap",
            "limit", "keep", "scrub", "rdma", "peers", "budget_thread", "top")}
        variables.update(log_level="LOG", export_as="EXPORT")

        def outcome(environment, **options):
            with unittest.mock.patch.dict(os.environ, environment):
                try:
                    with vpmm.Pool(backend="host", **options) as pool:
                        return pool.info()._replace(memory_free=0)
                except vpmm.OutOfMemoryError:
                    return "no memory"
                except (ValueError, vpmm.Error):
                    return "refused"

        taken = 0
        for option, variable in variables.items():
            for text in texts:
                by_name = outcome({"VPMM_" + variable: text})
                self.assertEqual(by_name, outcome({}, **{option: text}), f"{option}={text!r}")
                taken += isinstance(by_name, vpmm.Info)
        self.assertGreater(taken, 50)
        self.assertIsNone(self.open(trace="none").info().trace)
        self.assertEqual(outcome({}, keep=0, overlap=0), outcome({"VPMM_KEEP": "0", "VPMM_OVERLAP": "0"}))

    def test_limits(self):
        # Bytes and percent are one setting: what is given takes the place of what the environment has.
        total = self.open().info().memory_total
        for variable in ("50%", "32M"):
            os.environ["VPMM_LIMIT"] = variable
            self.addCleanup(os.environ.pop, "VPMM_LIMIT", None)
            for options, limit in (({"limit": "75%"}, total // 4 * 3), ({"limit_percent": 75}, total // 4 * 3),
                                   ({"limit": total // 8 * 7}, total // 8 * 7), ({"limit": "none"}, "none"),
                                   ({"limit": "16M", "limit_percent": 75}, 16 * MIB),
                                   ({"limit": "75%", "limit_percent": 25}, total // 4),
                                   ({"limit": "25%", "limit_percent": 75}, total // 4),
                                   ({"limit": "75%", "limit_percent": 0}, total // 4 * 3)):
                got = self.open(**options).info().limit
                self.assertLess(abs(got - limit) if got != limit else 0, 2 * MIB, (variable, options))

    def test_environment(self):
        # What is not given is as the environment has it.
        os.environ["VPMM_LIMIT"] = "32M"
        self.addCleanup(os.environ.pop, "VPMM_LIMIT")
        self.assertEqual(self.open().info().limit, 32 * MIB)
        self.assertEqual(self.open(limit="16M").info().limit, 16 * MIB)

    def test_bad(self):
        for error, options in (
                (ValueError, {"page_size": "2X"}), (ValueError, {"page_size": "M"}), (TypeError, {"limit": 1.5}),
                (ValueError, {"reuse": "never"}), (ValueError, {"overhead": -1}), (TypeError, {"colour": "red"}),
                (ValueError, {"peers": [64]}), (ValueError, {"peers": "some"}), (TypeError, {"peers": [1.5]}),
                (ValueError, {"limit": 1 << 64}), (ValueError, {"limit": "16777216T"}),
                (ValueError, {"limit": "\u00b2"}), (TypeError, {"log": 3}), (TypeError, {"pressure": 0}),
                (TypeError, {"exhausted": "text"}),
                (ValueError, {"overhead": (1 << 32) + 3}), (ValueError, {"device": 1 << 32}), (TypeError, {"trace": 5}),
                (ValueError, {"device": -1}), (vpmm.Error, {"page_size": 3}), (vpmm.Error, {"device": 99})):
            with self.assertRaises(error, msg=str(options)) as caught:
                self.open(**options)
            self.assertRegex(str(caught.exception), "|".join(options))

    def refused(self, option, value):
        try:
            self.open(**{option: value})
        except (OSError, TypeError, ValueError) as error:
            return str(error)
        return ""

    def test_bad_text(self):
        # The error of a bad text names all that could be there. A name of a file can be any text.
        for option in set(inspect.signature(vpmm.Pool).parameters) - {"budget", "oom_dump", "plan", "trace"}:
            error = self.refused(option, "?")
            self.assertIn(option, error)
            for value in ("none", "all", "auto", "1%"):
                if not self.refused(option, value):
                    self.assertIn(f"'{value}'", error)

    def test_log(self):
        lines = []
        pool = vpmm.Pool(backend="host", va_size="1G", log_level="info",
                         log=lambda level, line: lines.append((level, line)))
        pool.close()
        self.assertIn("pool destroyed after 0 allocations", lines[-1][1])
        self.assertEqual(lines[-1][0], 3)

    def test_empty(self):
        # A function is one whatever its truth value, such as that of a list which has nothing yet.
        class Calls(list):
            def __call__(self, *arguments):
                self.append(arguments)

        calls = {name: Calls() for name in ("log", "pressure", "exhausted")}
        pool = self.open(limit="16M", log_level="error", **calls)
        pool.malloc(12 * MIB)
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.malloc(8 * MIB)
        self.assertEqual(calls["pressure"], [(8 * MIB,)])
        self.assertTrue(calls["log"] and calls["exhausted"])

    def test_pressure(self):
        asked, told = [], []
        blocks = []

        def give(size):
            asked.append(size)
            if blocks:
                pool.free(blocks.pop())
                return True
            return False

        pool = self.open(limit="16M", pressure=give, exhausted=lambda size, text: told.append((size, text)))
        blocks.append(pool.malloc(12 * MIB))
        pool.malloc(12 * MIB)
        self.assertEqual((asked, told), ([12 * MIB], []))
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.malloc(8 * MIB)
        self.assertEqual(asked, [12 * MIB, 8 * MIB])
        self.assertEqual(told[0][0], 8 * MIB)
        self.assertIn("limit", told[0][1])

    def test_pressure_raises(self):
        # It counts as no, and is not asked for ever.
        asked, printed = [], []

        def fail(size):
            asked.append(size)
            if len(asked) > 5:
                os.write(2, b"asked again and again\n")
                os._exit(1)
            raise RuntimeError("no")

        self.addCleanup(setattr, sys, "excepthook", sys.excepthook)
        sys.excepthook = lambda kind, error, trace: printed.append(error)
        pool = self.open(limit="16M", pressure=fail)
        pool.malloc(12 * MIB)
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.malloc(12 * MIB)
        self.assertEqual((asked, [str(error) for error in printed]), ([12 * MIB], ["no"]))
        # Neither is it where the hook raises, too.
        sys.excepthook = lambda kind, error, trace: 1 // 0
        asked.clear()
        with self.assertRaises(vpmm.OutOfMemoryError):
            pool.malloc(12 * MIB)
        self.assertEqual(asked, [12 * MIB])
        pool.malloc(2 * MIB)

    def test_trace(self):
        name = os.path.join(os.environ["work"], "pool-%p.trace")
        pool = self.open(trace=name)
        pool.free(pool.malloc(MIB))
        written = pool.info().trace
        self.assertEqual(written, name.replace("%p", str(os.getpid())))
        pool.close()
        with open(written, encoding="ascii") as trace:
            self.assertIn(" a ", trace.read())


class Life(unittest.TestCase):
    def program(self, text, **environment):
        """Runs a program to its end, and returns what it says."""
        done = subprocess.run([sys.executable, "-W", "error", "-c", "import sys, vpmm\n" + textwrap.dedent(text)],
                              capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout + done.stderr)
        return done.stdout

    def test_exit(self):
        # Whatever is left when the interpreter goes, and in whichever order it goes then.
        made = 'pool = vpmm.Pool(backend="host", log=lambda level, line: print(line), log_level="debug")\n'
        gone = "pool destroyed after 1 allocations"
        self.assertIn(gone, self.program(made + "pool.malloc(5)"))
        self.assertIn(gone, self.program(made + """pool.malloc(5)
class Cycle:
    pass
cycle = Cycle()
cycle.pool, cycle.me = pool, cycle
del pool"""))
        for line in ("sys.kept = pool", "vpmm.kept = pool", "import builtins; builtins.kept = pool",
                     "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))",
                     "import atexit; atexit.register(lambda: pool.check() or pool.free(pool.malloc(5)))"):
            self.program(made + "pool.malloc(5)\n" + line)
        # Its finaliser may run when the module is gone.
        self.program("""
            from vpmm import _blocks
            sys.kept = _blocks.Block(5000, _blocks.Stream(0))
        """)

    def test_thread_at_exit(self):
        # A thread that allocates while the interpreter goes.
        self.program("""
            import threading
            pool = vpmm.Pool(backend="host", log=lambda level, line: None, log_level="debug")
            started = threading.Event()
            def work():
                while True:
                    pool.free(pool.malloc(5000))
                    vpmm.default_pool().free(vpmm.default_pool().malloc(5000))
                    started.set()
            threading.Thread(target=work, daemon=True).start()
            started.wait()
        """)

    @unittest.skipUnless("fork" in multiprocessing.get_all_start_methods(), "there is no fork here")
    def test_fork(self):
        # A child cannot use the pools, is told so, and leaves them as they are.
        self.program("""
            import multiprocessing, warnings
            warnings.simplefilter("ignore")
            context = multiprocessing.get_context("fork")
            pool = vpmm.Pool(backend="host")
            blocks = pool.malloc(100), vpmm.default_pool().malloc(100)
            def child(out):
                global pool
                said = []
                for call in (lambda: pool.malloc(5), pool.stats, lambda: pool.free(blocks[0]), vpmm.info, vpmm.trim,
                             lambda: vpmm.default_pool().malloc(5), lambda: vpmm.default_pool().free(blocks[1])):
                    try:
                        call()
                        said.append("it works")
                    except vpmm.Error as error:
                        said.append(str(error))
                pool.close()
                del pool
                out.put(said)
            out = context.Queue()
            process = context.Process(target=child, args=(out,))
            process.start()
            said = out.get()
            process.join()
            assert process.exitcode == 0 and len(said) == 7 and all("forked" in text for text in said), said
            assert pool.stats().requested == vpmm.stats().requested == 100
            pool.check()
        """)

    def test_spawn(self):
        # A child that is none of a fork has pools of its own.
        self.program("""
            import os, subprocess
            block = vpmm.default_pool().malloc(100)
            subprocess.run([sys.executable, "-c", "import vpmm; assert vpmm.stats().requested == 0"], check=True)
            assert vpmm.stats().requested == 100
        """)

    def test_threads(self):
        # All calls on one pool, from several threads.
        pool = vpmm.Pool(backend="host", va_size="1G")
        self.addCleanup(pool.close)
        failed = []

        def work(seed):
            try:
                for step in range(200):
                    size = (seed * 977 + step * 7919) % (256 << 10) + 1
                    block = pool.malloc(size)
                    ctypes.memset(block, seed, size)
                    if step % 5 == 0:
                        block = pool.realloc(block, 2 * size)
                    self.assertEqual(ctypes.string_at(block, size), bytes([seed]) * size)
                    self.assertEqual(vpmm.lookup(block).base, block)
                    if step % 20 == 0:
                        self.assertIn("backend: host", pool.dump())
                        pool.trim()
                        pool.reset_peaks()
                    self.assertGreaterEqual(pool.stats().requested, size)
                    pool.free(block, vpmm.STREAM_ANY if step % 3 == 0 else None)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(pool.stats().requested, 0)
        pool.check()


class Missing(unittest.TestCase):
    """What is said where the library is not there, or too old, or finds no device."""

    def fails(self, text, **environment):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stderr.splitlines()[-2:]

    def test_missing(self):
        said = self.fails("import ctypes\ndef none(name, *rest, **words):\n    raise OSError(f'{name}: no such file')\n"
                          "ctypes.CDLL = none\nimport vpmm")
        self.assertRegex(said[-1], r"^ImportError: libvpmm\.so\.0: no such file; install libvpmm .* LD_LIBRARY_PATH")

    def test_old(self):
        # A library without a call of this version.
        said = self.fails("import ctypes\nopen = ctypes.CDLL\n"
                          "ctypes.CDLL = lambda name, *rest: open(None if name == 'libvpmm.so.0' else name)\n"
                          "import vpmm", LD_PRELOAD="")
        self.assertRegex(said[-1], r"^ImportError: libvpmm\.so\.0 has no vpmm_pool_create: it is older than this")

    def test_no_device(self):
        said = self.fails("import vpmm\nvpmm.stats()", VPMM_BACKEND="host", VPMM_HOST_DEVICES="0")
        self.assertIn("vpmm_pool_stats: ", "".join(said))


# As vpmm_pool_dump(3) explains it.
DUMP = """page_size: 2097152
chunk 0x7fb0f1800000: [~1][~1][*7][1.5][+5][-0.5][*496]
  0x7fb0f1800000 2097152 zombie stream 1 pending
  0x7fb0f1a00000 2097152 zombie stream 1 pending
  0x7fb0f1c00000 14680064 unmapped
  0x7fb0f2a00000 3145728 malloc stream 1 passed
  0x7fb0f2d00000 10485760 malloc stream 3,4 pending
  0x7fb0f3700000 1048576 free stream any pending
  0x7fb0f3800000 1040187392 unmapped
chunk 0x7fb100000000: [-1][*1][1][-1]
  0x7fb100000000 2097152 free unused
  0x7fb100200000 2097152 unmapped
  0x7fb100400000 2097152 malloc stream 2 passed
  0x7fb100600000 2097152 free stream 2 passed
shareable 0x7fb200000000 2097152
"""


class Snapshot(unittest.TestCase):
    def test_segments(self):
        segments = _snapshot.segments(5, DUMP)
        self.assertEqual([(segment["address"], segment["total_size"], segment["allocated_size"], segment["stream"])
                          for segment in segments],
                         [(0x7fb0f2a00000, 7 << 21, 13 << 20, 1), (0x7fb100000000, 1 << 21, 0, 0),
                          (0x7fb100400000, 2 << 21, 1 << 21, 2)])
        self.assertEqual([len(segment["blocks"]) for segment in segments], [3, 1, 2])
        # These blocks are none of this process, so what was asked for is not known.
        self.assertEqual(segments[0]["requested_size"], 13 << 20)
        self.assertEqual({segment["device"] for segment in segments}, {5})


class Written(unittest.TestCase):
    def test_failure(self):
        with self.assertRaises(vpmm.Error):
            _library.written_by(lambda out: -errno.EIO)


class Stream:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Streams(unittest.TestCase):
    def test_kinds(self):
        class Protocol:
            def __cuda_stream__(self):
                return (0, 77)

        class Binding:
            """CUstream of cuda.bindings."""

            def __int__(self):
                return 77

        for stream in (77, Stream(cuda_stream=77), Stream(ptr=77), Protocol(), Stream(handle=ctypes.c_void_p(77)),
                       Stream(handle=Binding())):
            self.assertEqual(_library.stream_handle(stream), 77)
        self.assertEqual(_library.stream_handle(None), 0)
        self.assertEqual(_library.stream_handle(Stream(handle=ctypes.c_void_p(None))), 0)
        with self.assertRaisesRegex(TypeError, "is no stream"):
            _library.stream_handle("main")

    def test_numbers(self):
        class Protocol:
            def __init__(self, handle):
                self.handle = handle

            def __cuda_stream__(self):
                return (0, self.handle)

        for kind in (lambda handle: handle, lambda handle: Stream(cuda_stream=handle),
                     lambda handle: Stream(ptr=handle), Protocol, lambda handle: Stream(handle=handle)):
            for handle in (-1, 1 << 64):
                with self.assertRaisesRegex(ValueError, "^stream="):
                    _library.stream_handle(kind(handle))
            with self.assertRaisesRegex(TypeError, "^stream=True is not a whole number"):
                _library.stream_handle(kind(True))
            self.assertEqual(_library.stream_handle(kind((1 << 64) - 1)), (1 << 64) - 1)


class Default(unittest.TestCase):
    def test_default(self):
        self.assertEqual(vpmm.info().backend, "host")
        a = vpmm.default_pool().malloc(MIB)
        self.assertEqual(vpmm.stats().requested, MIB)
        self.assertIn("requested: 1048576", vpmm.dump())
        vpmm.default_pool().free(a)
        self.assertGreater(vpmm.trim(), 0)
        vpmm.reset_peaks()
        self.assertEqual(vpmm.stats().peak_live, 0)

    def test_version(self):
        self.assertRegex(vpmm.__version__, r"^\d+\.\d+\.\d+$")
        for name in vpmm.__all__:
            self.assertTrue(hasattr(vpmm, name), name)


if __name__ == "__main__":
    unittest.main()
