# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes a C source of the fragments in the sections EXAMPLES of pages: each becomes a function. Kernel launches become
# calls. Programs, commands, C++ and Python are left out.

function end_fragment(  i, head)
{
	if (text !~ /vpmm_[a-z_]+\(/ || text ~ /int main\(|(^|\n)\$ |vpmm::|import /)
		return
	gsub(/\\e/, "\\", text)
	gsub(/\\&\.\.\./, "", text)
	gsub(/<<<[^>]*>>>/, "", text)
	if (text ~ /^\nstatic /) {
		i = index(text, "\n}\n") + 2
		head = substr(text, 1, i)
		text = substr(text, i + 1)
		print head
	}
	printf "/* %s */\nint fragment_%d(void);\nint fragment_%d(void)\n{%sreturn 0;\n}\n", page, ++count, count, text
}

FNR == 1 { section = ""; inside = 0; page = FILENAME; sub(/.*\//, "", page) }
/^\.Sh/ { section = $2 }
/^\.Ed/ { if (inside) end_fragment(); inside = 0 }
inside { text = text $0 "\n" }
/^\.Bd -literal/ && section == "EXAMPLES" { inside = 1; text = "\n" }
