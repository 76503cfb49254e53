# SPDX-License-Identifier: LGPL-2.1-or-later
# What the scripts among the tests share: TAP, and a tool that is run and complained of. Read with ". tap.sh".
# A complaint is what a check prints; a check that prints nothing has succeeded.

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0

# verdict NAME COMPLAINT: one line of TAP
verdict()
{
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		echo "$2" | sed 's/^/# /'
	fi
}

# skip NAME REASON: the line of what cannot be checked here
skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# present COMMAND...: a word that says whether it succeeds, for none_left
present()
{
	if "$@" >/dev/null 2>&1; then
		echo found
	else
		echo missing
	fi
}

# none_left NAME FILE: the file lists what was looked for and says of each whether it is there
none_left()
{
	if [ -s "$2" ]; then
		verdict "$1" "$(grep '^missing' "$2")"
	else
		verdict "$1" "found nothing to look for"
	fi
}

# run STATUS COMMAND...: complains if it does not exit with this status; what it says is kept in out and err
run()
{
	wanted=$1
	shift
	"$@" >"$work/out" 2>"$work/err"
	status=$?
	[ $status -eq "$wanted" ] || {
		echo "$*: exit status $status, expected $wanted"
		cat "$work/out" "$work/err"
	}
}

# says FILE TEXT: complains unless the file has it
says()
{
	grep -qF -e "$2" "$work/$1" || {
		echo "expected in $1: $2"
		cat "$work/$1"
	}
}

# silent FILE: complains if it has anything
silent()
{
	[ ! -s "$work/$1" ] || cat "$work/$1"
}

# link_program COMPILER NAME SOURCE...: makes $work/NAME with the library that was built. The sources are named from
# $work: libtool takes no file by a name that has a space, which the folders of the build and of temporary files can.
link_program()
{
	compiler=$1
	name=$2
	shift 2
	[ -e "$work/built" ] || ln -s "$top_builddir" "$work/built"
	# shellcheck disable=SC2086
	(cd "$work" && ./built/libtool --silent --tag=CC --mode=link $compiler ${SANITIZE_CFLAGS-} -pthread -o "$name" "$@" \
		built/lib/libvpmm.la)
}
