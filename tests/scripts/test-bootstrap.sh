#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# bootstrap, as a user meets it: which packages it asks for, where it builds, what the demo shows. The commands that it
# calls are stubs.
set -u

. "$top_srcdir/tests/support/tap.sh"

tree="$work/a tree"
calls=$work/calls
export CALLS="$calls"
: >"$work/tests"
echo 0 >"$work/status"
mkdir -p "$tree/debian" "$work/bin"
cp "$top_srcdir/bootstrap" "$tree/bootstrap"
cp "$top_srcdir/debian/control" "$tree/debian/control"
# A make of the test suite's own stays out of this.
unset MAKEFLAGS MFLAGS MAKELEVEL

# stub PATH: a command; what it does is on standard input
stub()
{
	{ echo '#!/bin/sh'; cat; } >"$1"
	chmod +x "$1"
}

# Every package is installed but those in $work/missing.
stub "$work/bin/dpkg-query" <<TXT
for package; do :; done
grep -qxF "\$package" "$work/missing" || printf installed
TXT
# What autoreconf generates: a configure that refuses what Autoconf's and Automake's refuse.
stub "$work/bin/autoreconf" <<TXT
echo autoreconf >>"$calls"
: >Makefile.in
cp "$work/configure" configure
TXT
stub "$work/configure" <<'TXT'
case $0 in
*' '*)
	echo "configure: error: unsafe srcdir value: '$(dirname "$0")'" >&2
	exit 1
	;;
esac
source=$(cd "$(dirname "$0")" && pwd)
if [ "$source" != "$(pwd)" ] && [ -f "$source/config.status" ]; then
	echo 'configure: error: source directory already configured; run "make distclean" there first' >&2
	exit 1
fi
printf '#!/bin/sh\necho config.status "$*" >>"%s"\n' "$CALLS" >config.status
chmod +x config.status
: >Makefile
TXT
stub "$work/bin/make" <<TXT
echo "make \$*" >>"$calls"
while [ "\$1" != -C ]; do shift; done
cd "\$2" || exit 1
[ -f Makefile ] || exit 1
case "\$*" in
*TESTS=*) ;;
*' check') cat "$work/tests"; exit "\$(cat "$work/status")" ;;
esac
mkdir -p tools
cp "$work/vpmm-info" "$work/vpmm-replay" tools
TXT
stub "$work/vpmm-info" <<TXT
[ -e "$work/gpu" ]
TXT
stub "$work/vpmm-replay" <<TXT
printf '%s\\n' "\$@" >"$work/replayed"
TXT

# bootstrap STATUS ARGUMENTS: in a tree where the package $missing is not installed
bootstrap()
{
	expected=$1
	shift
	: >"$calls"
	echo "$missing" >"$work/missing"
	run "$expected" env PATH="$work/bin:$PATH" sh "$tree/bootstrap" --no-install "$@"
}

clean()
{
	rm -rf "$tree/build" "$tree/tools" "$tree/configure" "$tree/Makefile.in" "$tree/Makefile" "$tree/config.status" \
		"$work/gpu" "$work/replayed"
	missing=none
}

for package in autoconf autoconf-archive automake gcc libglib2.0-dev libtool make pkgconf zlib1g-dev; do
	# gcc is not asked for where clang is installed.
	verdict "demo asks for $package" "$(clean; missing=$(printf '%s\n' "$package" clang)
		bootstrap 1 demo; says err "these packages are missing: $package")"
done
for package in debhelper debhelper-compat mandoc g++ build-essential; do
	verdict "demo does without $package" "$(clean; missing=$package; bootstrap 0 demo)"
done
verdict "check asks for what tests need" "$(clean; missing=mandoc; bootstrap 1 check
	says err "these packages are missing: mandoc")"
verdict "check does without debhelper" "$(clean; missing=debhelper; bootstrap 0 check)"
verdict "what has a configure does without autoconf" "$(clean; cp "$work/configure" "$tree"; : >"$tree/Makefile.in"
	missing=$(printf '%s\n' autoconf autoconf-archive automake libtool); bootstrap 0 demo
	! grep autoreconf "$calls")"
verdict "an alternative of a package will do" "$(clean; missing=gcc; bootstrap 0 demo)"

# built WHERE: complains unless all of make was in there
built()
{
	grep -q "^make .*-C $1 " "$calls" || { echo "expected make in $1"; cat "$calls"; }
	grep '^make ' "$calls" | grep -v -e "-C $1 "
}

for action in demo check; do
	verdict "$action builds beside a source directory that is not configured" "$(clean; bootstrap 0 $action
		built build; [ ! -e "$tree/config.status" ] || echo "the source directory was configured")"
	# The state that ./configure leaves, then that of a build.
	verdict "$action in a source directory that is configured" "$(clean; cp "$work/configure" "$tree"
		: >"$tree/Makefile.in"; (cd "$tree" && ./configure; echo mine >config.status; echo mine >Makefile)
		bootstrap 0 $action; built .
		[ "$(cat "$tree/config.status" "$tree/Makefile")" = "$(printf 'mine\nmine')" ] ||
			echo "the user's configuration was changed")"
	verdict "$action in a source directory that was configured after a first $action" "$(clean
		bootstrap 0 $action; built build; (cd "$tree" && ./configure)
		bootstrap 0 $action; built .)"
done

verdict "check after demo has what it installed configured in" "$(clean; missing=g++; bootstrap 0 demo; missing=none
	bootstrap 0 check; grep -q '^config.status --recheck' "$calls" || echo "it is not configured again"
	bootstrap 0 check; ! grep '^config.status' "$calls"; bootstrap 0 demo; ! grep '^config.status' "$calls")"
cat >"$work/tests" <<TXT
PASS: tests/a 1 /a/one
SKIP: tests/a 2 /a/two # SKIP there is no GPU
PASS: tests/b.sh 1 - three
SKIP: tests/a 3 /a/four # SKIP there is no GPU
SKIP: tests/a 4 /a/five # SKIP too few processors
SKIP: tests/c.sh - there is no GPU
TXT
verdict "check tells each reason for a skip once" "$(clean; bootstrap 0 check; says out "3 skipped: there is no GPU"
	says out "1 skipped: too few processors"; says out "2 tests passed, 4 were skipped, 0 failed"
	! grep 'SKIP' "$work/out")"
verdict "check fails where make does" "$(clean; echo 2 >"$work/status"; bootstrap 1 check
	says err "tests failed; the log is build/test-suite.log")"
echo "FAIL: tests/b.sh 2 - six" >>"$work/tests"
verdict "check shows what fails" "$(clean; bootstrap 1 check; says out "FAIL: tests/b.sh 2 - six"; says out "1 failed")"
echo 0 >"$work/status"
: >"$work/tests"
verdict "tests that are named are run alone" "$(clean; bootstrap 0 check tests/a tests/b
	grep -q '^make -s -C build .* check TESTS=tests/a tests/b' "$calls" || cat "$calls")"

# What the demo runs, run in earnest
# waits ARGUMENTS: how often a stream waited
waits()
{
	(cd "$top_srcdir" && vpmm-replay --json "$@") | sed -n 's/.*"waits": \([0-9]*\).*/\1/p'
}

# replayed: the arguments, none of which has a blank
replayed()
{
	tr '\n' ' ' <"$work/replayed"
}

verdict "the demo shows waits" "$(clean; bootstrap 0 demo
	[ "$(VPMM_BACKEND=host waits $(replayed | sed 's/--backend=auto/--backend=host/'))" -gt 0 ] ||
		echo "nobody waited: $(replayed)")"
verdict "the demo holds no GPU back" "$(clean; : >"$work/gpu"; bootstrap 0 demo
	case "$(replayed)" in *--lag*) replayed ;; *--verify*) ;; *) echo "no work: $(replayed)" ;; esac)"
echo "1..$count"
