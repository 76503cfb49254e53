# SPDX-License-Identifier: LGPL-2.1-or-later
# Prints NAME FILE for each function that C files in kernel style define: the head begins in the first column, and so
# does the brace below it.
function forget() { head = "" }
FNR == 1 { forget() }
/^\{/ {
	if (head != "") {
		gsub(/__attribute__ *\(\([a-z_, ]*(\([^)]*\))?\)\)/, "", head)
		if (match(head, /[A-Za-z_][A-Za-z0-9_]* *\(/))
			print substr(head, RSTART, RLENGTH - 1), FILENAME
	}
	forget()
	next
}
/^[A-Za-z_]/ && /\(/ && !/[;={]$/ { head = $0; next }
/^[A-Za-z_}#]/ || /^$/ { forget() }
