#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion for bash: each option that a tool knows, and programs behind those of vpmm-run.
set -u

if ! command -v bash >/dev/null 2>&1; then
	echo "1..0 # SKIP there is no bash"
	exit 0
fi
. "$top_srcdir/tests/support/tap.sh"

# completes TOOL WORD...: the words that complete the last one
completes()
{
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vpmm "$1" "${COMP_WORDS[COMP_CWORD]}"
		printf "%s\n" "${COMPREPLY[@]}"' "$top_srcdir/tools/completion/vpmm" "$@"
}

for tool in vpmm-bench vpmm-info vpmm-pause vpmm-replay vpmm-run vpmm-top; do
	"$tool" --help | awk '/^ +(-., )?--/ { sub(/=.*/, "="); sub(/^ +(-., )?/, ""); print $1 }' | sort >"$work/wanted"
	verdict "$tool: the options of its help" "$(completes "$tool" -- | sort >"$work/out"
		[ "$(wc -l <"$work/wanted")" -gt 2 ] || cat "$work/wanted"
		diff "$work/wanted" "$work/out")"
	verdict "$tool is completed" "$(bash -c '. "$0"; complete -p "$1"' "$top_srcdir/tools/completion/vpmm" "$tool" \
		>"$work/out" 2>&1; says out "-F _vpmm $tool")"
done
verdict "an option of which the beginning is there" "$(completes vpmm-replay --ver >"$work/out"
	printf '%s\n' --verify --version | diff - "$work/out")"
# In Turkish, one of them is not in a range of letters.
if localedef -i tr_TR -f UTF-8 "$work/letters" >/dev/null 2>&1; then
	verdict "in any locale" "$(completes vpmm-info -- >"$work/wanted"
		LOCPATH=$work LC_ALL=letters completes vpmm-info -- | diff "$work/wanted" -)"
else
	skip "in any locale" "localedef can make no locale: it needs the package locales"
fi
verdict "a program" "$(for before in "" --top "--trace = x" "--trace = x --"; do
	completes vpmm-run $before vpmm-re >"$work/out"; says out vpmm-replay; done)"
verdict "options of the program are its own" "$(completes vpmm-run ls -- >"$work/out"; grep -e -- "$work/out")"
verdict "the file of an option is no program" "$(completes vpmm-run --trace = vpmm-re >"$work/out"
	grep vpmm-replay "$work/out")"

echo "1..$count"
