#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The Python package as pip has it, without a network: a source archive, a wheel of that, and an environment in which
# the wheel is all there is.
set -u

# What builds it may be in another Python than the one that configure has found.
for python in "${PYTHON:-python3}" python3 /usr/bin/python3; do
	"$python" -c 'import setuptools, sys, ensurepip, pip, venv, wheel
sys.exit(sys.version_info < (3, 9) or int(setuptools.__version__.split(".")[0]) < 61)' 2>/dev/null && break
	python=
done
if [ -z "$python" ]; then
	echo "1..0 # SKIP there is no Python of 3.9 or later with pip, venv, wheel and setuptools 61"
	exit 0
fi
. "$top_srcdir/tests/support/python.sh"

. "$top_srcdir/tests/support/tap.sh"

lib=$(cd "$top_builddir/lib/.libs" && pwd)
mkdir "$work/python" "$work/python/vpmm" "$work/dist"
cp "$top_srcdir/python/pyproject.toml" "$top_srcdir/python/setup.cfg" "$work/python/"
cp "$top_srcdir"/python/vpmm/*.py "$top_srcdir"/python/vpmm/py.typed "$work/python/vpmm/"
(cd "$work/python/vpmm" && ls) | sort >"$work/sources"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top_srcdir/python/pyproject.toml")

# Nothing of the source tree, of the user's settings and of the network.
unset PYTHONPATH
PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 HOME=$work
export PIP_CONFIG_FILE PIP_NO_INDEX PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR HOME

echo "1..6"

verdict "a source archive is built" "$(cd "$work/python" && "$python" -c \
	'import setuptools.build_meta as build; build.build_sdist("../dist")' 2>&1 >/dev/null | grep -iE 'error|Traceback'
	[ -e "$work/dist/vpmm-$version.tar.gz" ] || ls "$work/dist")"

verdict "a wheel is built of it" "$("$python" -m pip wheel -q --no-build-isolation --no-deps -w "$work/dist" \
	"$work/dist/vpmm-$version.tar.gz" 2>&1; [ -e "$work/dist/vpmm-$version-py3-none-any.whl" ] || ls "$work/dist")"

"$python" -m zipfile -e "$work/dist/vpmm-$version-py3-none-any.whl" "$work/wheel" >"$work/out" 2>&1
verdict "it has all of the package" "$(cat "$work/out"; (cd "$work/wheel/vpmm" && ls) | sort | diff "$work/sources" -)"
verdict "it asks for no other" "$(grep -h '^Requires-Dist' "$work"/wheel/*.dist-info/METADATA)"

verdict "it installs where there is nothing else" "$({ "$python" -m venv "$work/env" &&
	"$work/env/bin/python" -m pip install -q "$work/dist/vpmm-$version-py3-none-any.whl"; } 2>&1 || echo failed)"

verdict "it works there, and CuPy is not needed for it" "$(cd / && LD_LIBRARY_PATH=$lib VPMM_BACKEND=host \
	VPMM_VA_SIZE=1G "$work/env/bin/python" -W error -c "
import sys
import vpmm, vpmm.cupy
assert vpmm.__file__.startswith('$work/env/'), vpmm.__file__
assert vpmm.__version__ == '$version', vpmm.__version__
with vpmm.Pool() as pool:
    pool.free(pool.malloc(1 << 20))
    assert pool.stats().frees == 1
for name in 'core', 'numba', 'torch', 'warp':
    try:
        __import__('vpmm.' + name)
    except ImportError as error:
        assert 'vpmm' not in (error.name or ''), error
    else:
        raise AssertionError(name)
" 2>&1)"
