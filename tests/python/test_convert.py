# SPDX-License-Identifier: LGPL-2.1-or-later
"""Snapshots of PyTorch that become traces, and what is refused."""

import collections
import gzip
import io
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

from vpmm import convert


def entry(action, addr, size, us, stream=0):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": us, "frames": []}


def segment(*blocks, **more):
    return {"device": 0, "address": 0x1000, "total_size": 0x9000, "stream": 0, "blocks": list(blocks), **more}


def block(addr, size, state="active_allocated"):
    return {"address": addr, "size": size, "requested_size": size - 1, "state": state, "frames": []}


class Convert(unittest.TestCase):
    def lines(self, segments, *histories):
        found = convert.convert({"segments": segments, "device_traces": list(histories)})
        self.assertEqual(found[0], "# vpmm-trace 2 source=pytorch")
        return found[1:]

    def test_history(self):
        self.assertEqual(self.lines([], [
            entry("segment_alloc", 0x1000, 4096, 90), entry("alloc", 0x1000, 512, 100),
            entry("alloc", 0x2000, 1024, 105, 7), entry("free_requested", 0x1000, 512, 110),
            entry("free_completed", 0x1000, 512, 111), entry("oom", 0, 5, 112)]), [
                "0 p 1 cuda 0 2097152", "0 a 0x1000 512 0", "5 a 0x2000 1024 7", "10 f 0x1000 0", "12 x 5 0"])

    def test_older_blocks(self):
        """What the history frees without having allocated it, and what the segments still have, was there before."""
        self.assertEqual(self.lines(
            [segment(block(0x1000, 512), block(0x1200, 512, "inactive"), block(0x3000, 100))],
            [entry("free_requested", 0x2000, 64, 50, 3), entry("alloc", 0x3000, 100, 60)]), [
                "0 p 1 cuda 0 2097152", "0 a 0x2000 64 3", "0 a 0x1000 511 0", "0 f 0x2000 3", "10 a 0x3000 100 0"])

    def test_address_again(self):
        self.assertEqual(self.lines([], [
            entry("alloc", 1, 5, 1), entry("alloc", 1, 6, 2), entry("free_requested", 1, 6, 3),
            entry("free_requested", 1, 6, 4)]), [
                "0 p 1 cuda 0 2097152", "0 a 0x1 5 0", "1 f 0x1 0", "1 a 0x1 6 0", "2 f 0x1 0"])

    def test_devices(self):
        self.assertEqual(self.lines([segment(block(0x7000, 9), device=2)], [], [entry("alloc", 1, 5, 20)]), [
            "0 p 1 cuda 1 2097152", "0 p 2 cuda 2 2097152", "0 a 0x7000 8 0 pool=2", "0 a 0x1 5 0"])

    def test_time_goes_back(self):
        self.assertEqual(self.lines([], [entry("alloc", 1, 5, 20), entry("alloc", 2, 5, 10)])[1:],
                         ["0 a 0x1 5 0", "0 a 0x2 5 0"])

    def refuses(self, data, reason):
        with self.assertRaisesRegex(convert.Damaged, reason):
            convert.convert(convert.load(io.BytesIO(data)))

    def test_refused(self):
        self.refuses(b"garbage", "it is no pickle")
        self.refuses(b"", "it is no pickle")
        self.refuses(pickle.dumps({"a": 1}), "no memory snapshot")
        self.refuses(pickle.dumps([]), "no allocation")
        self.refuses(pickle.dumps({"segments": [segment({"size": "x"})]}), "no size, or one that is no number")
        self.refuses(pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "size": 5}]]}), "no addr")

    def test_wrong_kinds(self):
        for wrong in (
                {"segments": [], "device_traces": 5}, {"segments": [], "device_traces": [5]},
                {"segments": [segment(blocks=5)]}, {"segments": [segment(blocks=None)]},
                [{"device": 0, "address": 1, "blocks": {1: 2}}], {"segments": [segment({"size": -(10 ** 5000)})]},
                [5], [None], {"segments": [], "device_traces": {"a": 1}}):
            with self.assertRaises(convert.Damaged):
                convert.convert(wrong)

    def test_numbers(self):
        most = (1 << 64) - 1
        self.assertIn(f"0 a {most:#x} 5 0", self.lines([], [entry("alloc", most, 5, 20)]))
        for wrong in (entry("alloc", most + 1, 5, 20), entry("alloc", 1, most + 1, 20), entry("alloc", 1, 5, most + 1),
                      entry("alloc", 1, 5, 20, most + 1), entry("free_requested", 10 ** 5000, 5, 20)):
            self.refuses(pickle.dumps({"segments": [], "device_traces": [[wrong]]}), "of more than 64 bits")

    def test_runs_nothing(self):
        self.refuses(pickle.dumps(collections.Counter()), "a collections.Counter")
        self.refuses(pickle.dumps(os.getcwd), "a posix.getcwd")


class Program(unittest.TestCase):
    def run_it(self, *arguments, **options):
        return subprocess.run([sys.executable, "-m", "vpmm.convert", *arguments], capture_output=True, check=False,
                              **options)

    def test_program(self):
        data = pickle.dumps({"segments": [], "device_traces": [[entry("alloc", 0x1000, 512, 100)]]})
        expected = b"# vpmm-trace 2 source=pytorch\n0 p 1 cuda 0 2097152\n0 a 0x1000 512 0\n"
        for given in (data, gzip.compress(data)):
            done = self.run_it("-", input=given)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, expected, b""))
        with tempfile.TemporaryDirectory() as folder:
            name, trace = os.path.join(folder, "snapshot"), os.path.join(folder, "trace")
            with open(name, "wb") as file:
                file.write(data)
            self.assertEqual(self.run_it(name, trace).returncode, 0)
            with open(trace, "rb") as file:
                self.assertEqual(file.read(), expected)

    def test_refusal(self):
        done = self.run_it("-", input=b"0 a 1 512 0\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"vpmm.convert: -: it is no pickle", done.stderr)
        done = self.run_it("/nowhere/at/all")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, b"vpmm.convert: /nowhere/at/all: No such file or directory\n")
        self.assertEqual(self.run_it().returncode, 2)

    def test_closed(self):
        """Its standard descriptors may be closed, and standard output full."""
        data = pickle.dumps({"segments": [], "device_traces": [[entry("alloc", 0x1000, 512, 100)]]})
        for redirection, reason in (("<&-", b"standard input is closed"), (">&-", b"standard output: it is closed"),
                                    (">/dev/full", b"No space left on device")):
            done = subprocess.run(["sh", "-c", f'exec "$0" -m vpmm.convert - {redirection}', sys.executable],
                                  input=data, capture_output=True, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn(b"Traceback", done.stderr)
            self.assertEqual(done.stdout, b"")

    def test_full(self):
        """An error of a write names its file, once, and Python does not repeat the write when it exits."""
        data = pickle.dumps({"segments": [], "device_traces": [[entry("alloc", 0x1000, 512, 100)]]})
        for redirection, name in ((">/dev/full", b"standard output"), ("/dev/full", b"/dev/full")):
            done = subprocess.run(["sh", "-c", f'exec "$0" -m vpmm.convert - {redirection}', sys.executable], input=data,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (2, b"vpmm.convert: %s: No space left on device\n" % name))

    def test_encoding(self):
        """A trace is the same whatever the encoding of the terminal is."""
        data = pickle.dumps({"segments": [segment(block(0x1000, 512))]})
        environment = {**os.environ, "PYTHONIOENCODING": "utf-16"}
        done = subprocess.run([sys.executable, "-m", "vpmm.convert", "-"], input=data, env=environment,
                              capture_output=True, check=False)
        self.assertEqual(done.stdout, self.run_it("-", input=data).stdout)

    def test_open_files(self):
        """What Python says of files that a program leaves open."""
        data = pickle.dumps({"segments": [segment(block(0x1000, 512))]})
        environment = {**os.environ, "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error"}
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "snapshot")
            for given in (data, gzip.compress(data), b"damaged"):
                with open(name, "wb") as file:
                    file.write(given)
                for arguments, words in ([name], {}), (["-"], {"input": given}):
                    done = self.run_it(*arguments, env=environment, **words)
                    self.assertNotIn(b"unclosed", done.stderr)
                    self.assertEqual(done.returncode, 2 if given == b"damaged" else 0, done.stderr)

    def test_help(self):
        # -OO leaves the texts of modules out.
        for level in ("", "2"):
            done = self.run_it("--help", env={**os.environ, "PYTHONOPTIMIZE": level})
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertIn(b"python3 -m vpmm.convert SNAPSHOT [TRACE]", done.stdout)


if __name__ == "__main__":
    unittest.main()
