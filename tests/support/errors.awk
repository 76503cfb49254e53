# SPDX-License-Identifier: LGPL-2.1-or-later
# Compares the errors of each call in the headers' comments and in the section ERRORS of its page. Headers come first,
# then pages. Prints "call code" for each that is in one of both only, and where it is.

# A call has the errors of another as well where the comment of its header says so.
function end_comment(  word, words, n, i)
{
	if (!call || text !~ /-E[A-Z0-9]/)
		return
	gsub(/[\t ]+/, " ", text)
	if (text ~ /error of the driver/)
		header[call, "EIO"] = 1
	calls[call] = 1
	n = split(text, words, " ")
	for (i = 1; i <= n; i++) {
		word = words[i]
		if (match(word, /-E[A-Z0-9]+/)) {
			word = substr(word, RSTART + 1, RLENGTH - 1)
			codes[word] = header[call, word] = 1
		}
	}
	while (match(text, /(errors? of|what|or) vpmm_[a-z_]+\(\)/)) {
		word = substr(text, RSTART, RLENGTH)
		sub(/.* /, "", word)
		sub(/\(\)/, "", word)
		other[call, word] = 1
		text = substr(text, RSTART + RLENGTH)
	}
}

function has(table, call, code, deep,  next_call)
{
	if ((call, code) in table)
		return 1
	for (next_call in calls)
		if (deep < 4 && (call, next_call) in other && has(table, next_call, code, deep + 1))
			return 1
	return 0
}

function of_page(code,  i, n, names)
{
	n = split(subject ? subject : all, names, " ")
	for (i = 1; i <= n; i++)
		page[names[i], code] = 1
	codes[code] = 1
}

FNR == 1 { is_page = FILENAME ~ /\.3$/; all = ""; inside = depth = 0; call = "" }

!is_page && /^\/\*\*/ { call = text = ""; inside = 0 }
!is_page && /^ \* vpmm_[a-z_]+\(\) - / { call = $2; sub(/\(\)/, "", call) }
!is_page && /^ \* Return:/ { inside = 1 }
!is_page && /^ \* Since:/ { if (inside) end_comment(); inside = 0 }
!is_page && inside { sub(/^ \*/, ""); text = text " " $0 }

is_page && /^\.Nm vpmm_/ { all = all " " $2 }
is_page && /^\.Sh/ { inside = $2 == "ERRORS"; depth = 0; code = "" }
is_page && inside && /^\.Bl/ { depth++ }
is_page && inside && /^\.El/ && !--depth { code = "" }
is_page && inside && /^\.It Fl Er/ { code = $4; begins = 1; subject = ""; next }
is_page && inside && /^\.Pp/ { begins = 1; subject = ""; next }
# A paragraph begins with the calls that it is about, as in ".Fn vpmm_free :", or is about all of the page.
is_page && inside && begins && /^\.Fn vpmm_/ {
	subject = subject " " $2
	if ($3 == ":") {
		begins = 0
		if (code)
			of_page(code)
	}
	next
}
is_page && inside && begins && /^and$/ { next }
is_page && inside && begins { begins = 0; subject = ""; if (code) of_page(code) }

END {
	for (call in calls)
		for (code in codes) {
			if ((call, code) in page && !has(header, call, code, 0))
				print call " " code " is in its page only"
			if ((call, code) in header && !has(page, call, code, 0))
				print call " " code " is in the header only"
		}
}
