#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The wheel for Debian 11 and later, and for other systems with a C library of 2.31 or later: wheel.sh in a root of Debian
# 11. What that has too old, GLib and setuptools, is of this machine's packages, which have to be those of Debian 12: GLib
# is linked in statically, and its objects name no version of the C library.
#
#   tools/packaging/wheel-root.sh ROOT [DIR]    ROOT is made by debootstrap if it is not there; DIR is ./dist
#
# It needs root and the network of apt, and configure, see ./bootstrap.
set -eu

[ $# -ge 1 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${2:-dist}"
dist=$(cd "${2:-dist}" && pwd)
[ -e "$1/etc/debian_version" ] || debootstrap --variant=minbase \
	--include=gcc,g++,make,pkg-config,zlib1g-dev,python3,python3-distutils,mandoc bullseye "$1" >&2
root=$(cd "$1" && pwd)

rm -rf "$root/parts" "$root/source" "$root/dist"
mkdir "$root/parts" "$root/source" "$root/dist"
(cd "$root/parts" && apt-get -q download libglib2.0-dev libpcre2-dev python3-setuptools python3-pkg-resources \
	python3-wheel >&2)
for part in "$root"/parts/*.deb; do
	dpkg -x "$part" "$root/parts"
done
(cd "$top" && tar -cf - --exclude=./build --exclude=./.git --exclude=./dist .) | tar -xf - -C "$root/source"

# The one call that GLib takes of a newer C library: it asks the kernel itself where there is none, by ENOSYS.
cat >"$root/parts/close-range.c" <<TXT
#include <unistd.h>

int close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)syscall(436, first, last, flags);
}
TXT
chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 MAKEFLAGS="${MAKEFLAGS-}" sh -eu -c '
	usr=/parts/usr
	libraries=$(echo $usr/lib/*-linux-*)
	cd /parts
	gcc -O2 -fPIC -c close-range.c
	ar r "$libraries/libglib-2.0.a" close-range.o 2>/dev/null
	export PKG_CONFIG_PATH="$libraries/pkgconfig" PYTHONPATH=$usr/lib/python3/dist-packages SETUPTOOLS_USE_DISTUTILS=stdlib LDFLAGS="-L$libraries"
	export GLIB_CFLAGS="-I$usr/include/glib-2.0 -I$libraries/glib-2.0/include"
	/source/tools/packaging/wheel.sh /dist' >&2
cp "$root"/dist/*.whl "$dist/"
ls "$dist"/vpmm-*-py3-none-manylinux_*.whl
