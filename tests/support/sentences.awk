# SPDX-License-Identifier: LGPL-2.1-or-later
# Prints the sentences of mdoc pages, or of plain text, that have more than 25 words, and those that begin with a word
# that stands for a noun. A sentence ends with its line in mdoc. What is displayed, as code and tables, is left out.

function flush()
{
	if (words > 25)
		print words " words:" text
	if (text ~ /^ (That|What|Where|Who|Whoever|Nobody) /)
		print "begins with no noun:" text
	words = 0
	text = ""
}

function take(word)
{
	if (word !~ /[[:alnum:]]/)
		return
	words++
	text = text " " word
	if (!mdoc && word ~ /[.?!]\)?$/)
		flush()
}

FNR == 1 { flush(); mdoc = /^\.\\"/; display = synopsis = 0 }

mdoc && /^\.\\"/ { next }
mdoc && /^\.Sh/ { synopsis = /SYNOPSIS/ }
mdoc && /^\.Bd/ { display = 1 }
mdoc && /^\.Ed/ { display = 0 }
mdoc && /^\.(Bd|Bl|D1|Dl|Ed|El|It|Pp|Sh|Ss)/ { flush(); next }

!mdoc && /^```/ { display = !display }
!mdoc && (/^```/ || /^$/ || /^    / || /^- /) { flush() }
!mdoc && (/^```/ || /^    /) { next }

display || synopsis { next }

{
	macros = mdoc && /^\./
	sub(/^\./, "")
	for (i = 1; i <= NF; i++) {
		if (macros && ($i ~ /^[A-Z][a-z]$/ || i == 3 && $1 == "Xr"))
			continue
		take($i)
	}
}

mdoc && /[.?!]\)?$/ { flush() }
END { flush() }
