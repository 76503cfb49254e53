#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# What compute-sanitizer finds in a program with blocks of a pool: a write past the end of a block and one into a block
# that is freed, in C++ and in Python, each in a process of its own; and nothing in a program that does neither. It is
# no part of make check, as it wants a GPU, nvcc and compute-sanitizer, and half a minute:
#
#	PREFIX=/usr bash tests/gpu/test-sanitizer.sh
set -u

prefix=${PREFIX:-/usr}
export LD_LIBRARY_PATH=$prefix/lib:${LD_LIBRARY_PATH:-} PYTHONPATH=${PYTHONPATH:-python} PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d) || exit 1
trap 'rm -r "$work"' EXIT
count=0

verdict() # NAME, COMMAND that says whether it is so
{
	count=$((count + 1))
	if "${@:2}"; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		grep -v '^ *$' "$work/out" | head -n "${LINES_SHOWN:-25}" | cut -c 1-160 | sed 's/^/# /'
	fi
}

cat >"$work/faulty.cu" <<'END'
#include <stdio.h>
#include <string.h>
#include <vpmm.h>

__global__ void store(char *at)
{
	*at = 1; // here
}

int main(int argc, char **argv)
{
	const size_t size = 1000000;
	void *block = NULL, *beside = NULL;

	cudaFree(NULL);
	if (vpmm_malloc(NULL, &block, size, NULL) || vpmm_malloc(NULL, &beside, size, NULL)) {
		fprintf(stderr, "%s\n", vpmm_last_error());
		return 2;
	}
	store<<<1, 1>>>((char *)block + size - 1);
	cudaDeviceSynchronize();
	if (argc > 1 && !strcmp(argv[1], "past"))
		store<<<1, 1>>>((char *)block + size);
	vpmm_free(NULL, block, NULL);
	if (argc > 1 && !strcmp(argv[1], "freed"))
		store<<<1, 1>>>((char *)block);
	vpmm_free(NULL, beside, NULL);
	return cudaDeviceSynchronize() != cudaSuccess;
}
END
cat >"$work/faulty.py" <<'END'
import sys

import cupy
import vpmm.cupy

what = sys.argv[1] if len(sys.argv) > 1 else ""
vpmm.cupy.enable()
store = cupy.RawModule(code="""
extern "C" __global__ void store(char *at, long long index)
{
	at[index] = 1; // here
}
""", options=("-lineinfo",)).get_function("store")
block, beside = cupy.cuda.alloc(1000000), cupy.cuda.alloc(1000000)
address = block.ptr
store((1,), (1,), (address, 999999))
if what == "past":
    store((1,), (1,), (address, 1000000))
del block
if what == "freed":
    store((1,), (1,), (address, 0))
cupy.cuda.Device().synchronize()
END
sanitize() # PAGE-SIZE COMMAND...
{
	VPMM_PAGE_SIZE=$1 timeout 60 compute-sanitizer --error-exitcode=9 "${@:2}" >"$work/out" 2>&1
}

is_silent() { sanitize "$@" && grep -q "ERROR SUMMARY: 0 errors" "$work/out"; }
finds() { sanitize "$@"; [ $? -eq 9 ] && grep -q "Invalid __global__ write of size 1" "$work/out"; }
names() { grep -q "$1" "$work/out"; }

show()
{
	grep "=  *\(Invalid\|at \|Access\|and is\)" "$work/out" | head -n 4 | cut -c 1-150 | sed 's/^/# /'
}

# Every block from the driver's allocator, which compute-sanitizer knows; then blocks in pages of the pool.
try() # NAME LINE COMMAND...
{
	local all=18446744073709551615

	verdict "$1: no false alarm" is_silent $all "${@:3}"
	verdict "$1: a write past the end of a block" finds $all "${@:3}" past
	verdict "$1: its line" names "$2"
	show
	verdict "$1: a write into a freed block" finds $all "${@:3}" freed
	show
	for what in past freed; do
		sanitize 2M "${@:3}" $what
		echo "# $1, in a page of the pool, $what: $(tail -n 1 "$work/out")"
	done
}

if ! nvcc -arch=native -lineinfo -I"$prefix/include" -o "$work/faulty" "$work/faulty.cu" -L"$prefix/lib" -lvpmm \
	>"$work/out" 2>&1; then
	sed 's/^/# /' "$work/out"
	echo "1..0 # SKIP there is no nvcc"
	exit 0
fi
try C++ "faulty.cu:7" "$work/faulty"
if python3 -c 'import cupy' 2>/dev/null; then
	try Python "at store.*:4$" python3 "$work/faulty.py"
fi
echo "1..$count"
