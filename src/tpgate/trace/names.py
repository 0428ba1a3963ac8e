"""Takes a kernel's name apart: the function, its template arguments, and a family that survives a rebuild. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANONYMOUS = ("(anonymous namespace)::", "{anonymous}::", "<unnamed>::", "_GLOBAL__N_1::")
_ENUM = re.compile(r"\([A-Za-z_][\w:]*\)(?=-?\d)")
_WRAPPERS = re.compile(r"(^|::)(device_kernel|Kernel2?|kentry|enable_\w+|cutlass_kernel|kernel_wrapper)$")
_MANGLED = re.compile(r"(\d+)")
_TILE = re.compile(r"_\d+x\d+.*$")
_INDUCTOR = re.compile(r"^(triton_(?:poi|red|per|for|tem)_fused\w*?)_\d+$")
_NCCL = re.compile(r"^(nccl|rccl)(?:Symk)?(?:Dev)?Kernel_([A-Za-z]+)")
_FUNCTOR = re.compile(r"at::native::(?:\{anonymous\}::)?(\w*(?:_kernel(?:_cuda|_impl)?|Functor\w*|Ops)\b)")
_GENERIC = re.compile(r"(elementwise|reduce)_kernel|kernel_impl|unrolled|vectorized|nocast")


@dataclass(frozen=True, slots=True)
class Name:
    """A kernel's name, taken apart.

    Attributes:
        head: Qualified function name, without return type, template arguments and parameters; inside a wrapper, the
            wrapped one.
        body: With template arguments, without parameters and enum values.
        family: A short name that stays the same when tile sizes, template numbers or Inductor's counters change.
    """

    head: str
    body: str
    family: str


def parse(name: str) -> Name:
    """Return a kernel's name taken apart."""
    if name.startswith("_Z"):
        return _mangled(name)
    text = name
    for anonymous in _ANONYMOUS:
        text = text.replace(anonymous, "")
    if text.startswith(("Memcpy", "Memset")):
        return Name(text, text, text)
    body = _ENUM.sub("", _without_parameters(text)).strip()
    head = _head(body)
    inner = body
    while _WRAPPERS.search(head) and "<" in inner:
        inner = _first_argument(inner)
        wrapped = _head(inner)
        if not wrapped or wrapped.isdigit():
            break
        head = wrapped
    return Name(head, body, _family(head, body))


def _without_parameters(text: str) -> str:
    """Cut the outer parameter list off: the first parenthesis outside of template arguments."""
    depth = parens = 0
    for at, sign in enumerate(text):
        if sign == "(":
            if depth == 0 and at:
                return text[:at]
            parens += 1
        elif sign == ")":
            parens -= 1
        elif parens <= 0 and sign == "<":
            depth += 1
        elif parens <= 0 and sign == ">" and text[at - 1] != "-":
            depth -= 1
    return text


def _head(body: str) -> str:
    """Drop template arguments and all but the last word: ``void a::b<c>`` is ``a::b``."""
    kept: list[str] = []
    depth = parens = 0
    for at, sign in enumerate(body):
        if sign in "()" and depth:
            parens += 1 if sign == "(" else -1
        elif sign == "<" and not parens:
            depth += 1
        elif sign == ">" and not parens and body[at - 1] != "-":
            depth -= 1
        elif not depth:
            kept.append(sign)
    words = "".join(kept).split()
    return words[-1] if words else body


def _first_argument(body: str) -> str:
    start = body.find("<") + 1
    depth = 0
    for at in range(start, len(body)):
        sign = body[at]
        if sign == "<":
            depth += 1
        elif sign == ">":
            if not depth:
                return body[start:at].strip()
            depth -= 1
        elif sign == "," and not depth:
            return body[start:at].strip()
    return body[start:].strip()


def _mangled(name: str) -> Name:
    """Read the identifiers of an Itanium-mangled name; a demangler is not needed for words."""
    words: list[str] = []
    at = 2
    nested = 0
    while match := _MANGLED.search(name, at):
        size = int(match[1])
        word = name[match.end() : match.end() + size]
        # A number that is no length (a template value) is followed by no identifier of that length.
        if 1 < size <= len(name) - match.end() and re.fullmatch(r"[A-Za-z_]\w*", word):
            if not words or match.start() == at or nested == len(words):
                nested = len(words) + 1 if match.start() == at or not words else nested
            words.append(word)
            at = match.end() + size
        else:
            at = match.end()
    if not words:
        return Name(name, name, name)
    kept = [word for word in words if not word.startswith("_GLOBAL__N")]
    head = "::".join(kept[:nested] or kept[:1])
    body = " ".join(kept)
    if _WRAPPERS.search(head) or head.endswith("kentry"):
        rest = kept[nested:]
        head = rest[0] if rest else head
    return Name(head, body, _family(head, body))


def _family(head: str, body: str) -> str:
    short = head.rsplit("::", 1)[-1] if "::" in head else head
    if match := _NCCL.match(short):
        return f"nccl {match[2]}"
    if short.startswith("nvjet"):
        return "nvjet splitK" if "splitK" in short else "nvjet"
    if short.startswith("Cijk_"):
        return "Cijk"
    if match := _INDUCTOR.match(short):
        return match[1]
    if short.startswith(("fmhaSm", "bmm_", "fmha_v")):
        return re.sub(r"Kernel_.*$|(?<=^bmm)_.*$", "", short)
    if head.startswith("at::native") or short.endswith("elementwise_kernel"):
        functors = [found for found in _FUNCTOR.findall(body) if not _GENERIC.search(found)]
        return f"{short} {functors[0]}" if functors else short
    return _TILE.sub("", short)
