#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Whether a wheel works where there is nothing but Python: in a fresh environment, without a network and without a GPU.
#
#   tools/packaging/wheel-test.sh WHEEL
#
# The script needs nothing else of this tree, so that it runs in a root of another system. PYTHON is the Python to use.
set -eu

wheel=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"${PYTHON:-python3}" -m venv env
env/bin/python -m pip install -q --no-index --disable-pip-version-check "$wheel"
bin=$work/env/bin

# nothing but PATH, and the host backend
bare()
{
	env -i PATH=/usr/bin:/bin HOME="$work" VPMM_BACKEND=host VPMM_VA_SIZE=1G "$@"
}

bare "$bin/python" -W error -c '
import importlib.metadata, os, vpmm
with vpmm.Pool() as pool:
    blocks = [pool.malloc(4 << 20) for _ in range(8)]
    for block in blocks[::2]:
        pool.free(block)
    pool.free(pool.malloc(16 << 20))
    stats = pool.stats()
    assert stats.frees == 5 and stats.mapped < 40 << 20, stats
pages = os.listdir(os.path.join(os.path.dirname(vpmm.__file__), "html"))
assert "vpmm.7.html" in pages, pages
about = importlib.metadata.metadata("vpmm")
assert "vpmm-run" in (about.get_payload() or about["Description"]), about
assert "COPYING" in about.get_all("License-File", []), about
print("vpmm", vpmm.__version__)'
bare "$bin/vpmm-info" >info
grep -q 'ordinary memory' info || { cat info; exit 1; }
bare "$bin/vpmm-bench" --help >/dev/null
bare "$bin/vpmm-run" /bin/sh -c 'grep -q vpmm/lib/libvpmm-preload.so /proc/self/maps'
bare VPMM_TOP=1 VPMM_BUDGET="$work/budget:64M" "$bin/python" -c '
import subprocess, vpmm
pool = vpmm.Pool()
pool.malloc(3 << 20)
print(subprocess.run(["'"$bin"'/vpmm-top"], stdout=subprocess.PIPE, check=True, text=True).stdout)' >top
grep -q 'budget budget: .* of 64.0 MiB taken' top || { cat top; exit 1; }
echo "$(. /etc/os-release && echo "$PRETTY_NAME"): Python $("$bin/python" -c 'import platform; print(platform.python_version())'), ${wheel##*/}: ok"
