# SPDX-License-Identifier: LGPL-2.1-or-later
"""VPMM_STACKS where the program is in Python: its own frames, with their lines, in all threads."""

import inspect
import re
import threading
import unittest

import vpmm

MIB = 1 << 20


def allocate(pool, size):
    return pool.malloc(size), inspect.currentframe().f_lineno


def stacks(dump):
    """The frames of each stack by the bytes that it holds."""
    found = {}
    for text in re.split("^stack live ", dump, flags=re.MULTILINE)[1:]:
        lines = text.splitlines()
        found[int(lines[0].split()[0])] = [line.split(" ", 5)[-1] for line in lines[1:]]
    return found


class Stacks(unittest.TestCase):
    def setUp(self):
        self.pool = vpmm.Pool(backend="host", va_size="1G", stacks=1)
        self.addCleanup(self.pool.close)

    def test_lines(self):
        address, line = allocate(self.pool, 3 * MIB)
        frames = stacks(self.pool.dump())[3 * MIB]
        self.assertIn(f"allocate ({__file__}:{line})", frames)
        self.assertTrue(any(frame.startswith(f"test_lines ({__file__}:") for frame in frames))
        self.assertFalse(any("PyEval" in frame for frame in frames))
        self.pool.free(address)
        self.assertEqual(list(stacks(self.pool.dump())), [0])

    def test_threads(self):
        def work(size):
            for _ in range(50):
                self.pool.free(allocate(self.pool, size)[0])
            allocate(self.pool, size)

        threads = [threading.Thread(target=work, args=(n * MIB,)) for n in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        live = sum(live for live in stacks(self.pool.dump()))
        self.assertEqual(live, 10 * MIB)

    def test_exception_stays(self):
        """What is being raised when memory is asked for is not lost by the look at the frames."""
        try:
            raise KeyError("this")
        except KeyError as error:
            allocate(self.pool, MIB)
            self.assertEqual(error.args, ("this",))
        self.assertEqual(self.pool.info().stacks, 1)

    def test_settings(self):
        with vpmm.Pool(backend="host", va_size="1G", stacks="512K", oom_dump="/tmp/x-%%") as pool:
            self.assertEqual(pool.info().stacks, 512 << 10)
            self.assertEqual(pool.info().oom_dump, "/tmp/x-%")
        with vpmm.Pool(backend="host", va_size="1G", stacks="none", oom_dump="none") as pool:
            self.assertNotIn("stack", re.sub("stuck", "", pool.dump()))
            self.assertIsNone(pool.info().oom_dump)


if __name__ == "__main__":
    unittest.main()
