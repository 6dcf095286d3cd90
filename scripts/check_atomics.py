#!/usr/bin/env python3
"""Fails if an atomic of the library is not in docs/memory_model.md.

An atomic is a variable or member under include/ or src/ whose type is an atomic, or an array or
container of atomics, or an alias of one in the same file.  References and parameters are not.
It is in the document if its name and its file's stem (`word_`, `parker`) are on one line, or its
name is on a line below a heading that has the stem.
"""
import pathlib
import re
import sys

DOCUMENT = "docs/memory_model.md"

# One alternative a kind of text that is not code.  Raw strings come first: they may hold quotes.
NOT_CODE = re.compile(
    r'R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/",
    re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
ATOMIC = r"atomic(?:_flag|_ref|_bool|_u?int\w*|_size_t|_u?ll?ong|_u?char)?"
NAME = re.compile(r"[A-Za-z_]\w*")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def code_of(text: str) -> str:
    """The text with comments, strings and preprocessor lines made blank; offsets stay."""
    return DIRECTIVE.sub(blank, NOT_CODE.sub(blank, text))


def after_bracket(code: str, at: int) -> int:
    """The offset after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(code)


def after_angles(code: str, at: int) -> int:
    """The offset after the `>` that closes the `<` at `at`; -1 if it is no template argument list."""
    depth = 0
    i = at
    while i < len(code):
        if code[i] in "([{":
            i = after_bracket(code, i)
            continue
        if code[i] in ";)}]":
            return -1
        depth += {"<": 1, ">": -1}.get(code[i], 0)
        i += 1
        if depth == 0:
            return i
    return -1


def skip_space(code: str, at: int) -> int:
    while at < len(code) and code[at].isspace():
        at += 1
    return at


def statement_start(code: str, at: int) -> int:
    """Where the statement around `at` begins: after the last `;`, `{` or `}` before it."""
    return max(code.rfind(c, 0, at) for c in ";{}") + 1


def end_of_type(code: str, begin: int, end: int) -> int:
    """`end`, or the end of the template argument list that the text at begin..end stands in."""
    open_angles = [i for i in range(begin, end) if code[i] == "<"]
    for angle in open_angles:  # outermost first
        close = after_angles(code, angle)
        if close > end:
            return close
    return end


def declarators(code: str, at: int) -> list[tuple[str, int]]:
    """The names declared by `name init, name init ... ;` at `at`, with their offsets."""
    found = []
    while True:
        at = skip_space(code, at)
        while at < len(code) and code[at] == "*":  # an owner of atomics is one as well
            at = skip_space(code, at + 1)
        match = NAME.match(code, at)
        if not match or match[0] in ("const", "operator"):
            return found
        name, where = match[0], at
        at = skip_space(code, match.end())
        annotation = re.compile(r"[A-Z][A-Z0-9_]*\s*(?=\()").match(code, at)
        if annotation:  # VERGE_GUARDED_BY(lock_)
            at = skip_space(code, after_bracket(code, annotation.end()))
        if at >= len(code) or code[at] not in "={[;,":
            return found  # a function, or something else
        found.append((name, where))
        while at < len(code) and code[at] not in ",;":
            at = after_bracket(code, at) if code[at] in BRACKETS else at + 1
        if at >= len(code) or code[at] == ";":
            return found
        at += 1


def atomics_of(text: str) -> list[tuple[str, int]]:
    """Every (name, line) of an atomic declared in the text."""
    code = code_of(text)
    types = [ATOMIC]
    alias = re.compile(
        rf"\busing\s+(\w+)\s*=\s*(?:typename\s+)?(?:\w+::\s*)*(?:template\s+)?{ATOMIC}\b[^;&]*;"
    )
    # An alias called atomic is the policy's own name for the template.
    types += [m[1] for m in alias.finditer(code) if not re.fullmatch(ATOMIC, m[1])]
    found = {}
    for match in re.finditer(rf"\b(?:{'|'.join(types)})\b", code):
        start = statement_start(code, match.start())
        before = code[start : match.start()]
        if re.search(r"\b(using|typedef|friend|concept|requires|return)\b", before):
            continue
        if re.search(r"\btemplate\s*<", before) and not re.search(r">[^<>]*$", before):
            continue
        if before.count("(") > before.count(")"):
            continue  # a parameter, or an expression
        end = match.end()
        if code[skip_space(code, end) : skip_space(code, end) + 1] == "<":
            end = after_angles(code, skip_space(code, end))
            if end < 0:
                continue
        end = end_of_type(code, start, end)
        if code[end : end + 2] == "::":
            continue
        for name, where in declarators(code, end):
            found.setdefault(where, name)
    return [(name, code.count("\n", 0, where) + 1) for where, name in sorted(found.items())]


def is_documented(name: str, stem: str, document: str) -> bool:
    has_name = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    has_stem = re.compile(rf"(?<![A-Za-z]){re.escape(stem)}(?![A-Za-z])")
    heading = ""
    for line in document.splitlines():
        if line.startswith("#"):
            heading = line
        if has_name.search(line) and (has_stem.search(line) or has_stem.search(heading)):
            return True
    return False


def main(root: pathlib.Path) -> int:
    path = root / DOCUMENT
    document = path.read_text() if path.exists() else ""
    if not document:
        print(f"{DOCUMENT} is missing")
    bad = 0
    for source in sorted([*root.glob("include/**/*.hpp"), *root.glob("src/**/*.?pp")]):
        for name, line in atomics_of(source.read_text()):
            if not is_documented(name, source.stem, document):
                print(f"{source.relative_to(root)}:{line}: {name} is not in {DOCUMENT} "
                      f"(a line with `{name}` and `{source.stem}`)")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()))
