#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# What make install leaves is found by a program's CMakeLists.txt, wherever it lies, and the program runs.
set -u

if ! command -v cmake >/dev/null; then
	echo "1..0 # SKIP there is no cmake"
	exit 0
fi
if [ -n "${SANITIZE_CFLAGS-}" ] || grep -q "^dlname=''" "$top_builddir/lib/libvpmm.la"; then
	echo "1..0 # SKIP needs a shared object that a program can use as it is"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"
case $work in
*' '*)
	echo "1..0 # SKIP libtool cannot install below a folder with a space in its name: $work"
	exit 0
	;;
esac

# A nested make is not to take part in the one that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL
VPMM_BACKEND=host
export VPMM_BACKEND

# program VERSION: a project that asks for the package in this version
program()
{
	rm -rf "$work/program"
	mkdir "$work/program"
	cp "$top_srcdir/man/examples/streams.c" "$work/program"
	cat >"$work/program/CMakeLists.txt" <<TXT
cmake_minimum_required(VERSION 3.13)
project(program C)
set(prefix untouched)
find_package(vpmm $1 REQUIRED CONFIG)
find_package(vpmm REQUIRED CONFIG)
if(NOT prefix STREQUAL untouched)
	message(FATAL_ERROR "find_package(vpmm) changed a variable of the program")
endif()
add_executable(program streams.c)
target_link_libraries(program PRIVATE vpmm::vpmm)
TXT
}

# configured STATUS ROOT: complains unless cmake ends so, with the package below ROOT
configured()
{
	run "$1" cmake -S "$work/program" -B "$work/program/build" -Dvpmm_DIR="$2$cmakedir"
}

# works ROOT: complains unless the program builds and runs with what is below ROOT
works()
{
	configured 0 "$1"
	run 0 cmake --build "$work/program/build"
	run 0 "$work/program/build/program"
	run 0 ldd "$work/program/build/program"
	says out "$1$libdir/libvpmm.so"
}

# A variable of the Makefile, with all that it refers to.
value()
{
	printf 'include Makefile\nprint:\n\t@echo "$(%s)"\n' "$1" | make -s -C "$top_builddir" -f - print
}

libdir=$(value libdir)
cmakedir=$(value cmakedir)
version=$(sed -n 's/^Version: //p' "$top_builddir/vpmm.pc")
installed="$(run 0 make -s -C "$top_builddir" DESTDIR="$work/root" \
	install-libLTLIBRARIES install-includeHEADERS install-cmakeDATA)"
verdict "it installs" "$installed"
program ""
verdict "a program builds with it and runs" "$(works "$work/root")"
mkdir "$work/a moved"
mv "$work/root" "$work/a moved/root"
program "$version"
verdict "so does one that asks for this version, when all was moved" "$(works "$work/a moved/root")"
program "${version%%.*}.999"
verdict "a later version is not found" "$(configured 1 "$work/a moved/root"; says err "version: $version")"
program "$((${version%%.*} + 1)).0"
verdict "nor is the next major one" "$(configured 1 "$work/a moved/root"; says err "version: $version")"
for library in $(sed -n 's/^Libs.private: //p' "$top_builddir/vpmm.pc"); do
	echo "$(present grep -F -- "$library" "$top_builddir/lib/vpmm-config.cmake") $library"
done >"$work/libraries"
none_left "a static library is linked with all that vpmm.pc names for it" "$work/libraries"
echo "1..$count"
