#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The Python package, on the host backend and with frameworks of our own. Each test of unittest is a line of TAP.
set -u

# configure has a colon where it has found none.
python=${PYTHON:-python3}
[ "$python" != : ] || python=python3
if ! "$python" -c 'import sys, ctypes, unittest; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
	echo "1..0 # SKIP there is no Python of 3.9 or later ($python)"
	exit 0
fi
. "$top_srcdir/tests/support/python.sh"

. "$top_srcdir/tests/support/tap.sh"

VPMM_BACKEND=host
VPMM_VA_SIZE=1G
LD_LIBRARY_PATH=$(cd "$top_builddir/lib/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$top_srcdir/python
PYTHONDONTWRITEBYTECODE=1
export VPMM_BACKEND VPMM_VA_SIZE LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE work

for file in "$top_srcdir"/tests/python/test_*.py; do
	module=$(basename "$file" .py)
	"$python" -m unittest discover -v -s "$top_srcdir/tests/python" -p "$module.py" >"$work/out" 2>&1
	status=$?
	grep -E '^test_[a-z_]+ .* \.\.\. ' "$work/out" >"$work/tests"
	while read -r name class rest; do
		case $rest in
		*'... ok'*) verdict "$module: $class $name" "" ;;
		*'... skipped'*) verdict "$module: $class $name # SKIP ${rest##*... skipped }" "" ;;
		*) verdict "$module: $class $name" "$(cat "$work/out")" ;;
		esac
	done <"$work/tests"
	[ -s "$work/tests" ] || verdict "$module runs" "$(cat "$work/out")"
	[ $status -eq 0 ] || verdict "$module ends well" "$(cat "$work/out")"
done

# The types that py.typed promises, for the oldest Python that will do.
if command -v mypy >/dev/null; then
	verdict "mypy has no complaint" "$(cd "$top_srcdir/python" && { PYTHONPATH='' mypy --strict --ignore-missing-imports \
		--python-version 3.9 --cache-dir "$work/mypy" -p vpmm || echo "mypy failed"; } 2>&1 |
		grep -v '^Success')"
	# What a program does wrong it finds, on each line that says so and no other.
	cat >"$work/user.py" <<'END'
from typing import Tuple
import vpmm

def program(connection: int) -> Tuple[int, int]:
    with vpmm.Pool(limit="50%", page_size=1 << 21, reuse="block", keep="none", peers=[1], pages=3) as pool:
        if pool.info().reuse == "never":  # error
            pool.shared_alloc(5)
        pool.migrate(pool.shared_alloc(1 << 21), 1, "gpu")  # error
        pool.send(pool.malloc_growable(1, 2), "socket")  # error
        return vpmm.Pool(small="pool", scrub=vpmm.info().scrub).receive(connection)

vpmm.Pool(colour="red")  # error
vpmm.Pool(reuse="never")  # error
vpmm.Pool(limit=1.5)  # error
vpmm.Pool(log=print)
END
	grep -n '# error$' "$work/user.py" | sed 's/:.*//' >"$work/wanted"
	(cd "$top_srcdir/python" && PYTHONPATH='' mypy --strict --cache-dir "$work/mypy" --python-version 3.9 \
		"$work/user.py") >"$work/out" 2>&1
	sed -n 's/^.*user\.py:\([0-9]*\): error:.*/\1/p' "$work/out" | sort -n >"$work/found"
	verdict "mypy finds what a program does wrong" "$(diff "$work/wanted" "$work/found" || cat "$work/out")"
else
	verdict "mypy has no complaint # SKIP there is no mypy" ""
	verdict "mypy finds what a program does wrong # SKIP there is no mypy" ""
fi

# Each docstring that a user sees, a paragraph each.
cat >"$work/docstrings.py" <<'END'
import ast, sys

def public(node):
    for child in node.body:
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and not child.name.startswith("_"):
            yield ast.get_docstring(child) or ""
            if isinstance(child, ast.ClassDef):
                yield from public(child)

for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        module = ast.parse(file.read())
    print(ast.get_docstring(module), *public(module), "", sep="\n\n")
END
"$python" "$work/docstrings.py" "$top_srcdir"/python/vpmm/*.py >"$work/docstrings"
verdict "sentences of docstrings have at most 25 words, and begin with a noun" "$(
	awk -f "$top_srcdir/tests/support/sentences.awk" "$work/docstrings"
	[ -s "$work/docstrings" ] || echo "there are none")"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$top_srcdir/python/pyproject.toml")
verdict "the package has the library's version" "$(PYTHONPATH=$PYTHONPATH "$python" -c \
	"import sys, vpmm; sys.exit(vpmm.__version__ != '$version' and vpmm.__version__ + ' and not $version')" 2>&1)"
verdict "so has the recipe for Nix" "$(grep -q "version = \"$version\";" "$top_srcdir/tools/packaging/nix/default.nix" ||
	grep -n 'version =' "$top_srcdir/tools/packaging/nix/default.nix")"
echo "1..$count"
