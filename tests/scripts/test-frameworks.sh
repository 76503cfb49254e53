#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The examples for frameworks compile without a warning and run on the host backend, with stubs of the frameworks below
# tests/cpp that call them as the frameworks do. Thrust's compiles where there is nvcc.
set -u

. "$top_srcdir/tests/support/tap.sh"

# Names without a space, which flags can have, from $work.
ln -s "$top_srcdir" "$work/tree" || exit 1
examples=tree/man/examples/frameworks
cpp=tree/tests/cpp
VPMM_BACKEND=host
VPMM_VA_SIZE=${VPMM_VA_SIZE-1G}
VPMM_HOST_CAPACITY=64M
export VPMM_BACKEND VPMM_VA_SIZE VPMM_HOST_CAPACITY

# builds NAME COMPILER SOURCES FLAGS: complains unless $work/NAME can be made of the sources
builds()
{
	objects=
	for source in $3; do
		object=${source##*/}.o
		# shellcheck disable=SC2086
		(cd "$work" && $2 -Wall -Wextra -Wpedantic -Werror ${SANITIZE_CFLAGS-} -Itree/include $4 -c -o "$object" \
			"$source") >"$work/log" 2>&1 || {
			cat "$work/log"
			return
		}
		objects="$objects $object"
	done
	# shellcheck disable=SC2086
	link_program "$2" "$1" $objects 2>&1
}

# shows TEXT...: complains unless these are the lines of the output
shows()
{
	printf '%s\n' "$@" | diff - "$work/out"
}

flags="-std=c99 -D_GNU_SOURCE -isystem $cpp/stubs/arrayfire"
verdict "arrayfire.c compiles" "$(builds arrayfire "$CC" "$examples/arrayfire.c $cpp/fake-arrayfire.c" "$flags")"
verdict "arrayfire.c keeps ArrayFire's rules" "$(run 0 "$work/arrayfire"
	sed -i 's/, [0-9]* MiB held//' "$work/out"
	shows "two arrays of 4 MiB" "device 0: 8 MiB allocated" "one that the program has locked" \
		"device 0: 4 MiB allocated" none "device 0: 0 MiB allocated")"

flags="-std=c99 -D_GNU_SOURCE -isystem $cpp/stubs/onnxruntime"
verdict "onnxruntime.c compiles" "$(builds onnxruntime "$CC" "$examples/onnxruntime.c $cpp/fake-onnxruntime.c" "$flags")"
verdict "onnxruntime.c gives a session its memory" "$(run 0 "$work/onnxruntime" 1000.onnx
	shows "with a session: 3000 KiB allocated in 3 blocks" "without: 0 KiB allocated in 0 blocks")"
verdict "onnxruntime.c reports what does not fit" "$(run 1 "$work/onnxruntime" 1000000.onnx
	says err "vpmm_malloc_flags: 976.6 MiB"
	says err "allocation failed")"

if [ -z "${CXX-}" ]; then
	count=$((count + 1))
	echo "ok $count - rmm.cc # SKIP there is no C++ compiler"
else
	for name in "before 26.06" "from 26.06 on"; do
		case $name in
		before*) class="-isystem $cpp/stubs/rmm-class" ;;
		*) class= ;;
		esac
		flags="-std=c++17 $class -isystem $cpp/stubs/rmm -isystem $cpp/stubs/cccl -isystem $cpp/stubs/cudart"
		verdict "rmm.cc compiles with RMM $name" "$(
			builds rmm "$CXX" "$examples/rmm.cc" "$flags")"
		verdict "rmm.cc shows what RMM $name takes" "$(run 0 "$work/rmm"
			says out "a buffer: 3 MiB allocated"
			says out "out of memory: vpmm_malloc: 1073741824 MiB"
			says out "none: 0 MiB allocated")"
	done
fi

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
for source in man/examples/frameworks/thrust.cu tests/gpu/test-cccl.cu; do
	if [ -z "$nvcc" ]; then
		count=$((count + 1))
		echo "ok $count - ${source##*/} compiles # SKIP there is no nvcc"
	else
		verdict "${source##*/} compiles" "$("$nvcc" -std=c++17 -c -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
			-I"$top_srcdir/include" -o "$work/nvcc.o" "$top_srcdir/$source" 2>&1)"
	fi
done
echo "1..$count"
