# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Writes python/vpmm/_header.py, what the package knows of the library's headers:

    python3 generate.py HEADER... OUTPUT

make runs it when a header has changed. A file that says the same already is not written, as the sources may be
read-only then. The file is kept with the sources, as pip install ./python works without make.
"""

import contextlib
import os
import re
import sys

# Structures, and what a record of their fields is called.
STRUCTURES = {"vpmm_opts": None, "vpmm_allocation": None, "vpmm_page": None, "vpmm_stats": "Stats", "vpmm_info": "Info",
              "vpmm_forecast": "Forecast", "vpmm_shared_stats": "SharedStats", "vpmm_tag_stats": "TagStats"}
SUMMARIES = {
    "Stats": "The statistics of a pool; vpmm_pool_stats(3) explains each.",
    "Info": "The device of a pool and the settings in force; vpmm_pool_info(3) explains each.",
    "Forecast": "How a request would be served, and at what cost; vpmm_pool_query(3) explains each.",
    "TagStats": "The statistics of a tag in a pool; vpmm_tag_stats(3) explains each.",
    "SharedStats": "The statistics of the shared ranges of a pool; vpmm_shared_stats(3) explains each.",
}

# Fields of Info in which a number stands for a word, or for devices.
WORDED = {"limit": 'Union[int, Literal["none"]]', "keep": 'Union[int, Literal["all", "none"]]',
          "overlap": 'Union[int, Literal["auto", "none"]]', "peers": "Tuple[int, ...]"}

NUMBERS = {"int": "c_int", "unsigned int": "c_uint", "size_t": "c_size_t", "uint64_t": "c_uint64",
           "vpmm_tag": "c_uint"}


def camel(name):
    return "".join(part.capitalize() for part in name.replace("vpmm_", "", 1).split("_"))


def ctype(text):
    """The type of ctypes for one of C."""
    text = text.replace("const ", "").strip()
    base, stars = text.rstrip("* "), text.count("*")
    if base.endswith("_fn"):
        return camel(base)
    if base.startswith("enum "):
        base = "int"
    if stars and base == "char":
        return "c_char_p"
    if stars and base.startswith("struct ") and base[7:] in STRUCTURES:
        return f"POINTER(C{camel(base[7:])})"
    if stars and base in NUMBERS:
        return f"POINTER({NUMBERS[base]})"
    if stars:
        return "POINTER(c_void_p)" if stars == 2 else "c_void_p"
    return "None" if base == "void" else NUMBERS[base]


def words(text):
    """The names of enumerations without what they have in common, in the order of their numbers."""
    for name, body in re.findall(r"^enum (vpmm_\w+) \{\n(.*?)^\};", text, re.M | re.S):
        members = re.findall(r"^\t(VPMM_\w+)(?: = (\d+))?", body, re.M)
        for number, (member, given) in enumerate(members):
            if given and int(given) != number:
                raise SystemExit(f"enum {name}: {member} is not {number}")
        stem = members[0][0]
        while not (stem.endswith("_") and all(member.startswith(stem) for member, _ in members)):
            stem = stem[:-1]
        yield name, [member[len(stem):].lower() for member, _ in members]


def structures(text):
    """Name, fields as (name, type of ctypes, type of Python)."""
    pattern = r"^/\*\*\n \* struct (vpmm_\w+) -(.*?)\*/\nstruct \1 \{\n(.*?)^\};"
    for name, comment, body in re.findall(pattern, text, re.M | re.S):
        if name not in STRUCTURES:
            continue
        found = []
        for kind, field, length in re.findall(r"^\t(.*?)(\w+)(?:\[(\d+)\])?;$", body, re.M):
            enum = re.search(rf"^ \* @{field}: one of enum (\w+)", comment, re.M)
            python = "Optional[str]" if "char *" in kind else "str" if length else "int"
            if enum:
                python = camel(enum.group(1))
            if name == "vpmm_info":
                python = WORDED.get(field, python)
            found.append((field, f"c_char * {length}" if length else ctype(kind), python, enum and enum.group(1)))
        yield name, found


def generate(text):
    yield "# SPDX-License-Identifier: LGPL-2.1-or-later"
    yield '"""The definitions of vpmm.h and vpmm-shared.h. python/generate.py writes this file: do not edit it."""'
    yield ""
    yield "import ctypes"
    yield "from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p"
    yield "from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, Union, get_args"
    yield ""
    for name, value in re.findall(r"^#define (VPMM_\w+) \(?(?:\(size_t\))?(-?[0-9a-fx]+)u?\)?(?:\t|$)", text, re.M):
        yield f"{name[5:]} = {value}"
    yield ""
    for name, members in words(text):
        yield f"{camel(name)} = Literal[" + ", ".join(f'"{word}"' for word in members) + "]"
    known = list(structures(text))
    yield ""
    yield "# By the names of the fields."
    yield "WORDS: Dict[str, Tuple[str, ...]] = {"
    enums = {field: enum for _, fields in known for field, _, _, enum in fields if enum}
    yield from (f'    "{field}": get_args({camel(enum)}),' for field, enum in enums.items())
    yield "}"
    used = {kind for _, fields in known for _, kind, _, _ in fields}
    yield ""
    for result, name, arguments in re.findall(r"^typedef (\w+) \(\*(vpmm_\w+)\)\((.*?)\);", text, re.M | re.S):
        # In a structure, or passed to a call.
        if camel(name) in used or re.search(rf"\b{name} \w+[,)]", text):
            yield f"{camel(name)} = ctypes.CFUNCTYPE({', '.join([ctype(result)] + list(parameters(arguments)))})"
    for name, fields in known:
        record = STRUCTURES[name]
        if record:
            yield from ["", "", f"class {record}(NamedTuple):", f'    """{SUMMARIES[record]}"""', ""]
            yield from (f"    {field}: {python}" for field, _, python, _ in fields if field != "size")
        yield from ["", "", f"class C{camel(name)}(ctypes.Structure):", "    _fields_ = ["]
        yield from (f'        ("{field}", {kind}),' for field, kind, _, _ in fields)
        yield "    ]"
    yield ""
    yield ""
    yield "# The types of the result and of the arguments of each call."
    yield "CALLS: Dict[str, Tuple[Any, List[Any]]] = {"
    for result, name, arguments in re.findall(r"^((?:const )?\w+ \*?)(vpmm_\w+)\((.*?)\);", text, re.M | re.S):
        yield f'    "{name}": ({ctype(result)}, [{", ".join(parameters(arguments))}]),'
    yield "}"


def parameters(text):
    for parameter in " ".join(text.split()).split(", "):
        if parameter != "void":
            yield ctype(re.sub(r"\w+$", "", parameter))


def main():
    *headers, output = sys.argv[1:]
    text = ""
    for name in headers:
        with open(name, encoding="utf-8") as header:
            text += header.read()
    wanted = "".join(line + "\n" for line in generate(text))
    try:
        with open(output, encoding="utf-8") as present:
            if present.read() == wanted:
                with contextlib.suppress(OSError):
                    os.utime(output)
                return
    except FileNotFoundError:
        pass
    with open(output, "w", encoding="utf-8") as written:
        written.write(wanted)


if __name__ == "__main__":
    main()
