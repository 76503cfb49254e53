#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm.hpp: it compiles without a warning by every C++ compiler that is there, in the dialects that it promises, and
# does on the host backend what each framework expects. CCCL and Thrust are those of the CUDA Toolkit, where there is
# one, and of the others, or without it, tests/cpp/stubs has the interface.
set -u

if [ -z "${CXX-}" ]; then
	echo "1..0 # SKIP there is no C++ compiler"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"

cpp=$top_srcdir/tests/cpp
strict="-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wnon-virtual-dtor -Werror"
VPMM_BACKEND=host
VPMM_VA_SIZE=${VPMM_VA_SIZE-1G}
VPMM_HOST_CAPACITY=64M
VPMM_HOST_DEVICES=2
export VPMM_BACKEND VPMM_VA_SIZE VPMM_HOST_CAPACITY VPMM_HOST_DEVICES

# Both, where both are there; the second only compiles.
other=
for compiler in g++ clang++; do
	case $CXX in
	*"$compiler"*) ;;
	*) command -v $compiler >/dev/null && other=$compiler ;;
	esac
done
# One that cannot make programs, such as one without its standard library, is none.
echo '#include <system_error>' >"$work/probe.cc"
[ -z "$other" ] || $other -std=c++17 -fsyntax-only "$work/probe.cc" 2>/dev/null || other=

# compiles SOURCE FLAGS...: complains of every compiler and dialect that does not take it
compiles()
{
	source=$1
	shift
	for compiler in "$CXX" $other; do
		# c++2b is C++23 by the name that older compilers have for it.
		for std in c++17 c++20 c++2b; do
			# shellcheck disable=SC2086
			$compiler -std=$std $strict -I"$top_srcdir/include" -I"$cpp" -fsyntax-only "$@" "$source" \
				>"$work/log" 2>&1 || {
				echo "$compiler -std=$std $*"
				head -n 20 "$work/log"
			}
		done
	done
}

# links SOURCE FLAGS...: makes $work/program
links()
{
	source=$1
	shift
	# shellcheck disable=SC2086
	$CXX -std=c++17 -g -pthread $strict ${SANITIZE_CFLAGS-} -I"$top_srcdir/include" -I"$cpp" "$@" -c -o "$work/program.o" \
		"$source" >"$work/log" 2>&1 &&
		link_program "$CXX" program program.o >>"$work/log" 2>&1
}

# holds NAME SOURCE FLAGS...: it compiles everywhere, and what it checks holds
holds()
{
	name=$1
	source=$2
	shift 2
	verdict "$name compiles" "$(compiles "$source" "$@")"
	if links "$source" "$@"; then
		verdict "$name works" "$(run 0 "$work/program")"
	else
		verdict "$name works" "$(cat "$work/log")"
	fi
}

# As nvcc --default-stream per-thread has it.
per_thread=-DCUDA_API_PER_THREAD_DEFAULT_STREAM

# either NAME SOURCE FLAGS...: the same where a null stream is the calling thread's
either()
{
	holds "$@"
	name=$1
	source=$2
	shift 2
	verdict "$name works with default streams of each thread" "$(
		links "$source" $per_thread "$@" && run 0 "$work/program" || cat "$work/log")"
}

either "what needs no framework" "$cpp/test-core.cc"
either "the resource of CCCL from 3.1 on" "$cpp/test-cccl.cc" -isystem "$cpp/stubs/cccl"
either "the resource of RMM before 26.06" "$cpp/test-rmm.cc" -isystem "$cpp/stubs/rmm-class" \
	-isystem "$cpp/stubs/rmm" -isystem "$cpp/stubs/cudart"
either "the resource of RMM from 26.06 on" "$cpp/test-cccl.cc" -DTEST_RMM -isystem "$cpp/stubs/rmm" \
	-isystem "$cpp/stubs/cccl" -isystem "$cpp/stubs/cudart"
either "the resource of Thrust" "$cpp/test-thrust.cc" -isystem "$cpp/stubs/thrust"
either "the allocator of TensorRT" "$cpp/test-tensorrt.cc" -isystem "$cpp/stubs/tensorrt"
holds "the allocator of OpenCV" "$cpp/test-opencv.cc" -isystem "$cpp/stubs/opencv"
either "the resources of faiss" "$cpp/test-faiss.cc" -isystem "$cpp/stubs/faiss"

# It is installed as source, and compiled against the PyTorch that is there.
TEST_TORCH_OBJECT=$top_builddir/lib/.libs/libvpmm-torch.so
export TEST_TORCH_OBJECT
for version in "" -DSTUB_TORCH_OLDER; do
	holds "PyTorch's allocator class${version:+ with an older version}" "$cpp/test-torch.cc" -Wno-overloaded-virtual \
		-DVPMM_HAVE_SHAREABLE_HANDLE $version -I"$top_srcdir/python/vpmm" -isystem "$cpp/stubs/torch"
done

# All at once, with either RMM.
cat >"$work/all.cc" <<'END'
#define VPMM_WITH_CCCL
#define VPMM_WITH_FAISS
#define VPMM_WITH_OPENCV
#define VPMM_WITH_RMM
#define VPMM_WITH_TENSORRT
#define VPMM_WITH_THRUST
#include <vpmm.hpp>
#include <vpmm.hpp>

vpmm::faiss_resources faiss_resources;
vpmm::opencv_allocator opencv_allocator;
vpmm::resource resource;
vpmm::rmm_resource rmm_resource;
vpmm::tensorrt_allocator tensorrt_allocator;
vpmm::thrust_resource thrust_resource;
END

# together FLAGS...: complains where they do not compile together
together()
{
	for rmm in rmm rmm-class; do
		compiles "$work/all.cc" -isystem "$cpp/stubs/$rmm" -isystem "$cpp/stubs/rmm" -isystem "$cpp/stubs/faiss" \
			-isystem "$cpp/stubs/opencv" -isystem "$cpp/stubs/tensorrt" "$@"
	done
}
verdict "all frameworks together compile" "$(together -isystem "$cpp/stubs/cccl" -isystem "$cpp/stubs/thrust" \
	-isystem "$cpp/stubs/cudart")"

# names RMM FLAGS: what of it the linker merges with what others have by that name, but for the exceptions
names()
{
	# shellcheck disable=SC2086
	$CXX -std=c++17 -I"$top_srcdir/include" -isystem "$cpp/stubs/$1" -isystem "$cpp/stubs/rmm" \
		-isystem "$cpp/stubs/faiss" -isystem "$cpp/stubs/opencv" -isystem "$cpp/stubs/tensorrt" \
		-isystem "$cpp/stubs/cccl" -isystem "$cpp/stubs/thrust" -isystem "$cpp/stubs/cudart" ${2-} \
		-c -o "$work/names.o" "$work/all.cc" && ${NM-nm} "$work/names.o" |
		sed -n 's/.* [VWu] \(.*4vpmm.*\)/\1/p' | grep -vE '4vpmm(9bad_alloc|5error)' | LC_ALL=C sort
}
names rmm-class >"$work/legacy"
names rmm-class $per_thread >"$work/own"
# One program can have sources of both kinds.
verdict "either kind of default stream has names of its own" "$(
	[ -s "$work/legacy" ] && [ -s "$work/own" ] || echo "there are no names"
	LC_ALL=C comm -12 "$work/legacy" "$work/own")"

# The Toolkit's own; from CUDA 13 on they have a folder.
toolkit=
for dir in ${CUDA_HOME-} /usr/local/cuda /usr/local/cuda-*; do
	if [ -e "$dir/include/cuda/memory_resource" ] || [ -e "$dir/include/cccl/cuda/memory_resource" ]; then
		toolkit=$dir/include
		break
	fi
done
if [ -n "$toolkit" ]; then
	holds "the Toolkit's CCCL" "$cpp/test-cccl.cc" -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
		-isystem "$toolkit/cccl" -isystem "$toolkit"
	holds "the Toolkit's Thrust" "$cpp/test-thrust.cc" -isystem "$toolkit/cccl" -isystem "$toolkit"
	verdict "all frameworks together compile with the Toolkit's" "$(
		together -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -isystem "$toolkit/cccl" -isystem "$toolkit")"
else
	for name in CCCL Thrust "with all frameworks"; do
		count=$((count + 1))
		echo "ok $count - the Toolkit's $name # SKIP there is no CUDA Toolkit"
	done
fi

# refuses TEXT FLAGS...: complains if it compiles
refuses()
{
	printf '%s\n' "$1" >"$work/refused.cc"
	shift
	! $CXX "$@" -I"$top_srcdir/include" -fsyntax-only "$work/refused.cc" 2>"$work/err" || echo "it compiles: $1"
}
verdict "C++14 is refused" "$(refuses '#include <vpmm.hpp>' -std=c++14; says err "needs C++17")"
echo '#define CCCL_VERSION 3000001' >"$work/version"
mkdir -p "$work/old/cuda/std" && mv "$work/version" "$work/old/cuda/std"
verdict "CCCL before 3.1 without its macro is refused" "$(
	refuses '#define VPMM_WITH_CCCL
#include <vpmm.hpp>' -std=c++17 -isystem "$work/old"
	says err "LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE")"
echo '#define NV_TENSORRT_MAJOR 8' >"$work/old/NvInferRuntime.h"
verdict "TensorRT before 10 is refused" "$(
	refuses '#define VPMM_WITH_TENSORRT
#include <vpmm.hpp>' -std=c++17 -isystem "$work/old"
	says err "TensorRT 10")"

# Each call with a stream, and none in a comment, has it through the one function that knows what a null one is.
verdict "every stream goes through one function" "$(
	grep -nE 'vpmm_(malloc|free|realloc|use|stream_retire|pool_query|capture_)[a-z_]*\([^)]' \
		"$top_srcdir/include/vpmm.hpp" | grep -vE '\bnamed\(|VPMM_IDLE')"

# What the header has is in its page, and the other way round.
header=$top_srcdir/include/vpmm.hpp
page=$top_srcdir/man/vpmm.hpp.3
{
	sed -n 's/^class \([a-z_]*\).*/vpmm::\1/p; s/^using \([a-z_]*\) = .*/vpmm::\1/p' "$header" |
		grep -vx vpmm::basic_resource
	grep -o '\bVPMM_WITH_[A-Z]*' "$header"
} | sort -u >"$work/declared"
grep -oE '\bvpmm::[a-z_]+|\bVPMM_WITH_[A-Z]+' "$page" | sort -u >"$work/described"
verdict "vpmm.hpp(3) has what the header has" "$(diff "$work/declared" "$work/described")"
echo "1..$count"
