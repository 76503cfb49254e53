#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# A source archive for pip, which builds a wheel of it by wheel.sh: the tarball of `make dist`, with the manual in html/
# if this machine has mandoc.
#
#   tools/packaging/sdist.sh [DIR]        writes DIR/vpmm-VERSION.tar.gz; DIR is ./dist
#
# It needs what wheel.sh needs.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:-dist}"
dist=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top/python/pyproject.toml")
name=vpmm-$version

cd "$work"
"$top/configure" -q >&2
make -s distdir distdir="$name" >&2
if [ -d "$top/html" ]; then
	cp -R "$top/html" "$name/html"
elif command -v mandoc >/dev/null; then
	make -s html html_dir="$work/$name/html" >&2
fi
{
	echo '[build-system]'
	echo 'requires = ["setuptools >= 61", "wheel"]'
	echo 'build-backend = "wheel_backend"'
	echo 'backend-path = ["tools/packaging"]'
	echo
	sed -n '/^\[project\]/,/^\[project.entry/{/^\[project.entry/!p}' "$top/python/pyproject.toml"
} >"$name/pyproject.toml"
{
	echo 'Metadata-Version: 2.1'
	echo 'Name: vpmm'
	echo "Version: $version"
	sed -n 's/^description = "\(.*\)"$/Summary: \1/p; s/^requires-python = "\(.*\)"$/Requires-Python: \1/p' \
		"$top/python/pyproject.toml"
} >"$name/PKG-INFO"
tar -czf "$dist/$name.tar.gz" "$name"
echo "$dist/$name.tar.gz"
