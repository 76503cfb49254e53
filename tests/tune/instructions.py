#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a malloc costs that no cache serves, once a program has settled: instructions, counted by callgrind.

Usage: instructions.py [--functions=N] TUNE [PROGRAM...]

TUNE is the program tests/tune/tune of a build without --enable-debug; PROGRAM is text in the name of a program that it
writes. Counts in the third pass, on the host backend. For each program it prints the mallocs, those that no cache
served, the instructions of one of these under the pool's lock (pool_malloc), and those of the whole pass for each
malloc, frees included.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

PROGRAMS = ["256 blocks replaced at random 1", "first in first out 1", "log-uniform to 256 MB 1", "last in first out 1",
            "many of 130 to 600 KB, few large 1"]


class Counts:
    """What a file of callgrind's has: of each function its own instructions, those with its callees, and its calls."""

    def __init__(self, path):
        self.own, self.inclusive, self.calls, self.names = {}, {}, {}, {}
        self.backend = 0
        function = callee = None
        cost_of_call = False
        for line in open(path, encoding="utf-8"):
            if line.startswith("fn="):
                function = self.name(line[3:])
            elif line.startswith("cfn="):
                callee = self.name(line[4:])
            elif line.startswith("calls="):
                self.calls[callee] = self.calls.get(callee, 0) + int(line[6:].split()[0])
                cost_of_call = True
            elif re.match(r"[-+*0-9]", line) and function:
                cost = int(line.split()[1]) if len(line.split()) > 1 else 0
                if cost_of_call:
                    # A function that calls itself would be counted twice; of those that matter here, none does.
                    self.inclusive[callee] = self.inclusive.get(callee, 0) + cost
                    if callee.startswith("host_") and not function.startswith("host_"):
                        self.backend += cost
                else:
                    self.own[function] = self.own.get(function, 0) + cost
                cost_of_call = False

    def name(self, text):
        """Names are written once, and then referred to by their numbers."""
        number, _, name = text.strip().partition(" ")
        if name:
            self.names[number] = name
        return self.names.get(number, number)

    def total(self):
        return sum(self.own.values())


def count(tune, program):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.%p")
        # The program measures in a child, which has a file of its own: the larger one. The counts begin anew with
        # each pass, as those of calls include what is not collected.
        subprocess.run(["valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file=" + out,
                        "--toggle-collect=run_settled", "--zero-before=run_settled", tune, "--jobs=1", "--seeds=1", "--only=" + program],
                       check=True, stdout=subprocess.DEVNULL)
        files = glob.glob(os.path.join(folder, "callgrind.*"))
        return max((Counts(file) for file in files), key=Counts.total)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="print N functions, too: the instructions for a miss, with and without callees, and the calls")
    parser.add_argument("tune")
    parser.add_argument("program", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    print(f"{'program':40} {'mallocs':>8} {'missed':>8} {'of a miss':>10} {'all':>8} {'backend':>8}")
    for program in options.program:
        counts = count(options.tune, program)
        mallocs, missed = counts.calls.get("vpmm_malloc", 0), counts.calls.get("pool_malloc", 0)
        if not mallocs:
            sys.exit(f"instructions.py: {program}: no malloc was counted")
        of_miss = counts.inclusive.get("pool_malloc", 0) / max(missed, 1)
        print(f"{program:40} {mallocs:8} {missed:8} {of_miss:10.0f} {counts.total() / mallocs:8.0f}"
              f" {counts.backend / mallocs:8.0f}", flush=True)
        for name in sorted(counts.inclusive, key=counts.inclusive.get, reverse=True)[:options.functions]:
            print(f"    {counts.inclusive[name] / max(missed, 1):8.0f} {counts.own.get(name, 0) / max(missed, 1):8.0f}"
                  f" {counts.calls.get(name, 0) / max(missed, 1):8.2f}  {name}")


if __name__ == "__main__":
    main()
