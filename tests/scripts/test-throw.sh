#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# libvpmm-torch.so as an object, and what a program in C++ catches when memory runs out.
set -u

object=$top_builddir/lib/.libs/libvpmm-torch.so
if [ ! -e "$object" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi
if [ -n "${SANITIZE_CFLAGS-}" ]; then
	echo "1..0 # SKIP what a sanitizer needs at load is not the plug-in's"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"

# Installed, it finds the library in the usual places.
LD_LIBRARY_PATH=$(cd "$top_builddir/lib/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# A program that asks for more than there is. WITH_TYPE, WITH_TORCH, WITH_CUDA: as in a process that has PyTorch's error
# for that, its usual one, or what its part for CUDA throws; otherwise there is only the language's own library.
cat >"$work/catch.cc" <<'END'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/types.h>

struct released {
	bool *flag;
	~released() { *flag = true; }
};

#ifdef WITH_TYPE
namespace c10 {
struct SourceLocation {
	const char *function, *file;
	uint32_t line;
};

class Error : public std::exception {
	std::string text, what_;
	void *context[6];
public:
	static int count;
	Error(SourceLocation where, std::string text);
	Error(const Error &other);
	~Error() override;
	const char *what() const noexcept override;
};
int Error::count;
Error::Error(SourceLocation where, std::string given) : text(std::move(given)), context()
{
	count++;
	what_ = std::string("type: ") + where.function + " " + where.file + ": " + text;
}
Error::~Error() { count--; }
const char *Error::what() const noexcept { return what_.c_str(); }

class OutOfMemoryError : public Error {
	using Error::Error;
};
/* As somewhere in PyTorch. */
void exhausted();
void exhausted() { throw OutOfMemoryError(SourceLocation(), ""); }
}
#endif
#ifdef WITH_TORCH
namespace c10 { namespace detail {
void torchCheckFail(const char *function, const char *, uint32_t, const char *text);
void torchCheckFail(const char *function, const char *, uint32_t, const char *text)
{
	throw std::runtime_error(std::string("c10: ") + function + ": " + text);
}
} }
#endif
#ifdef WITH_CUDA
namespace c10 { namespace cuda {
void c10_cuda_check_implementation(int error, const char *, const char *, unsigned int, bool);
void c10_cuda_check_implementation(int error, const char *, const char *, unsigned int, bool)
{
	throw std::runtime_error("cuda: " + std::to_string(error));
}
} }
#endif

int main(int, char **argv)
{
	void *object = dlopen(argv[1], RTLD_NOW);
	if (!object) {
		puts(dlerror());
		return 1;
	}
	auto alloc = reinterpret_cast<void *(*)(ssize_t, int, void *)>(dlsym(object, "vpmm_torch_alloc"));
	auto release = reinterpret_cast<void (*)(void *, size_t, int, void *)>(dlsym(object, "vpmm_torch_free"));
	bool unwound = false;
	try {
		released here{&unwound};
		alloc(atoll(argv[2]), 0, nullptr);
		puts("nothing was thrown");
#ifdef WITH_TYPE
	} catch (const c10::OutOfMemoryError &error) {
		puts(error.what());
	} catch (const c10::Error &) {
		puts("another error");
#endif
	} catch (const std::bad_alloc &) {
		puts("bad_alloc");
	} catch (const std::runtime_error &error) {
		puts(error.what());
	}
	puts(unwound ? "unwound" : "not unwound");
#ifdef WITH_TYPE
	puts(c10::Error::count ? "the exception is left" : "the exception is gone");
#endif
	void *ptr = alloc(1000, 0, nullptr);
	release(ptr, 1000, 0, nullptr);
	puts(ptr ? "works on" : "does not work on");
	return 0;
}
END

# catches NAME FLAGS TEXT...: the program, compiled with these flags, says each of the texts
catches()
{
	catches_name=$1
	catches_flags=$2
	shift 2
	# shellcheck disable=SC2086
	if ! $CXX -std=c++17 $catches_flags -rdynamic -o "$work/catch" "$work/catch.cc" -ldl >"$work/log" 2>&1; then
		verdict "$catches_name" "$(cat "$work/log")"
		return
	fi
	verdict "$catches_name" "$(run 0 "$work/catch" "$object" 1099511627776
		for text; do
			says out "$text"
		done)"
}

verdict "it needs the library and the C library alone" "$(readelf -d "$object" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vE '^(libvpmm\.so\.0|libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux.*)$')"
verdict "it stays loaded" "$(readelf -d "$object" | grep NODELETE >/dev/null || echo "not marked NODELETE")"
$NM -D --defined-only "$object" | sed 's/.* //' >"$work/exported"
sed -n 's/^[a-z].*\(\bvpmm_torch_[a-z_]*\)(.*;$/\1/p' "$top_srcdir/lib/torch/torch.h" | sort -u >"$work/declared"
verdict "it exports what its header declares" "$(sort "$work/exported" | diff "$work/declared" -)"

VPMM_BACKEND=host
VPMM_VA_SIZE=1G
VPMM_HOST_CAPACITY=64M
export VPMM_BACKEND VPMM_VA_SIZE VPMM_HOST_CAPACITY
if [ -z "${CXX-}" ]; then
	count=$((count + 1))
	echo "ok $count - a program in C++ # SKIP there is no C++ compiler"
else
	catches "PyTorch's error for it, with the reason" "-DWITH_TYPE -DWITH_TORCH" \
		"type: vpmm_torch_alloc lib/torch/raise.c: CUDA out of memory. Tried to allocate 1.00 TiB on GPU 0. " \
		"try this: ask for less than the device has" unwound "the exception is gone" "works on"
	catches "PyTorch's usual error" -DWITH_TORCH \
		"c10: vpmm_torch_alloc: CUDA out of memory. Tried to allocate 1.00 TiB on GPU 0. vpmm_malloc: 1048576 MiB" \
		"try this: ask for less than the device has" unwound "works on"
	catches "that of PyTorch's part for CUDA" -DWITH_CUDA "cuda: 2" unwound "works on"
	catches "that of C++" "" bad_alloc unwound "works on"
fi
echo "1..$count"
