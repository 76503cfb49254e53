# SPDX-License-Identifier: LGPL-2.1-or-later
# Prints NAME PAGE for each name that a page is about beside its own.
FNR == 1 {
	page = FILENAME
	sub(/.*\//, "", page)
	sub(/\.[0-9]$/, "", page)
	heading = 1
}
/^\.Nd/ { heading = 0 }
heading && /^\.Nm / && $2 != page { print $2, page }
