# SPDX-License-Identifier: LGPL-2.1-or-later
# Of C files in kernel style, in which no two functions have the same name: what is reached from the functions of the
# file -v from=FILE, and from those whose names match -v also=PATTERN, and changes what others see. Prints FUNCTION FILE
# CALLER for each function whose body matches -v changes=PATTERN, but for what matches -v marks=PATTERN. The search ends
# at the functions of -v ends="NAME ...".
function called(text, words,   n)
{
	gsub(/"[^"]*"|(->|\.)[a-z_]+\(/, " ", text)
	while (match(text, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
		words[++n] = substr(text, RSTART, RLENGTH - 1)
		text = substr(text, RSTART + RLENGTH)
	}
	return n
}
FNR == 1 { head = name = "" }
/^\{/ && head != "" {
	name = match(head, /[A-Za-z_][A-Za-z0-9_]*\(/) ? substr(head, RSTART, RLENGTH - 1) : ""
	file[name] = FILENAME
	head = ""
	next
}
/^\}/ { head = name = "" }
name != "" { body[name] = body[name] " " $0; next }
/^[A-Za-z_]/ && /\(/ && !/[;={]$/ { head = $0; next }
/^[A-Za-z_}#]/ || /^$/ { head = "" }
END {
	count = split(ends, words, " ")
	for (i = 1; i <= count; i++)
		seen[words[i]] = 1
	for (name in file) {
		if ((file[name] == from || name ~ also) && !seen[name]++)
			queue[++last] = name
	}
	for (i = 1; i <= last; i++) {
		gsub(marks, "", body[queue[i]])
		if (body[queue[i]] ~ changes)
			print queue[i], file[queue[i]], caller[queue[i]]
		count = called(body[queue[i]], words)
		for (k = 1; k <= count; k++) {
			if (!(words[k] in file) || seen[words[k]]++)
				continue
			caller[words[k]] = queue[i]
			queue[++last] = words[k]
		}
	}
}
