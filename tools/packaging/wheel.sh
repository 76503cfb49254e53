#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# A wheel with all of libvpmm in it, for any CUDA: the package, the library with GLib and zlib linked in statically, the
# objects for PyTorch and for programs that know nothing of it, the tools, and the manual in vpmm/html, which needs mandoc
# or a source archive with the manual. It needs a C library as new as that of this machine's symbols, and the tag of the
# wheel says which.
#
#   tools/packaging/wheel.sh [DIR]        writes DIR/vpmm-VERSION-py3-none-manylinux_2_NN_MACHINE.whl; DIR is ./dist
#
# CC, CXX, CFLAGS, MAKEFLAGS and PYTHON are as for configure and make. It needs configure, see ./bootstrap, and Python
# with setuptools 61 and wheel.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:-dist}"
dist=$(cd "${1:-dist}" && pwd)
for python in "${PYTHON:-python3}" /usr/bin/python3; do
	"$python" -c 'import setuptools, wheel' 2>/dev/null && break
	python=
done
[ -n "$python" ] || { echo "there is no Python with setuptools and wheel" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# For the linker, as libtool and make would each take the dollar for theirs.
LD_RUN_PATH='$ORIGIN:$ORIGIN/..:$ORIGIN/../lib'
export LD_RUN_PATH
mkdir "$work/build"
cd "$work/build"
"$top/configure" -q --prefix=/usr --libdir=/usr/lib \
	GLIB_LIBS="-l:libglib-2.0.a -l:libpcre2-8.a -lm -pthread" ZLIB_LIBS=-l:libz.a
make -s >&2

package=$work/python/vpmm
mkdir -p "$package/lib" "$package/bin"
cp -R "$top/python/vpmm/." "$package/"
rm -rf "$package/__pycache__"
cp -L lib/.libs/libvpmm.so.0 lib/.libs/libvpmm-torch.so lib/.libs/libvpmm-preload.so "$package/lib/"
for tool in tools/.libs/vpmm-*; do
	case $tool in *.o|*.c) ;; *) cp "$tool" "$package/bin/" ;; esac
done
if [ -d "$top/html" ]; then
	cp -R "$top/html" "$package/html"
elif command -v mandoc >/dev/null; then
	make -s html html_dir="$package/html"
fi
if [ -d "$package/html" ]; then
	# A wheel has no links: each name's page is that which it is described on.
	find "$package/html" -type l | while read -r link; do
		printf 's|"%s"|"%s"|g\n' "${link##*/}" "$(readlink "$link")"
		rm "$link"
	done >"$work/names.sed"
	sed -i -f "$work/names.sed" "$package"/html/*.html
fi
strip --strip-unneeded "$package"/lib/* "$package"/bin/*
# The page of an index has no file that the README could show.
grep -v '^!\[' "$top/README" >"$work/python/README"
cp "$top/COPYING" "$work/python/"
# The licence of PCRE2, which GLib has linked in, asks for its text beside binaries.
for library in libglib2.0-dev libpcre2-dev zlib1g-dev; do
	[ ! -e "/usr/share/doc/$library/copyright" ] ||
		cp "/usr/share/doc/$library/copyright" "$work/python/COPYING.$library"
done

newest=$(objdump -T "$package"/lib/* "$package"/bin/* | sed -n 's/.*GLIBC_\([0-9.]*[0-9]\).*/\1/p' | sort -Vu | tail -n 1)
for file in "$package"/lib/* "$package"/bin/*; do
	others=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' |
		grep -vE '^(libvpmm\.so\.0|lib(c|m|dl|gcc_s|pthread|rt)\.so\.[0-9]|ld-linux.*)$' || true)
	[ -z "$others" ] || { echo "$file needs $others" >&2; exit 1; }
done

# The files of the licences. Setuptools finds them by their names from 77 on, and warns if they are named as before.
licences=$("$python" -c 'import setuptools
if int(setuptools.__version__.split(".")[0]) < 77: print(r"license-files = [\"COPYING*\"]\n")')

# The commands of a distribution's package are programs, and no business of a wheel without any.
{
	sed '/^\[tool.setuptools.package-data\]/,$d
		s/^description = /readme = { file = "README", content-type = "text\/markdown" }\n&/
		s/^packages = /'"$licences"'&/' "$top/python/pyproject.toml"
	sed -n '/^\[tool.setuptools.package-data\]/,$s/^vpmm = \[\(.*\)\]$/package-data.vpmm = [\1, "lib\/*", "bin\/*", "html\/*"]/p' \
		"$top/python/pyproject.toml"
	echo '[project.scripts]'
	for tool in "$package"/bin/*; do
		name=${tool##*/}
		echo "$name = \"vpmm._tools:$(echo "${name#vpmm-}" | tr - _)\""
	done
} >"$work/python/pyproject.toml"
{
	cat "$top/python/setup.cfg"
	printf '[bdist_wheel]\nplat_name = manylinux_%s_%s\n' "$(echo "$newest" | tr . _)" "$(uname -m)"
} >"$work/python/setup.cfg"

cd "$work/python"
"$python" -c 'import sys, setuptools.build_meta; setuptools.build_meta.build_wheel(sys.argv[1])' "$dist" >&2
ls "$dist"/vpmm-*-py3-none-manylinux_*.whl
