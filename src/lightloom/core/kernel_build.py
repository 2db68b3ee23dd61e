"""Builds the extension module ``lightloom.core._kernels``: kernels as machine code that is called without Numba.

Numba compiles them for every processor of the architecture; what it makes is linked with ``_kernels.c``, which reads
the arguments. A C compiler is needed here, and neither it nor Numba where the module is used.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightloom.core.kernels import Kernel, name_tuple

MODULE = Path(__file__).with_name("_kernels.abi3.so")
"""The extension module, which serves every version of Python."""

_TYPES = {
    "?": "uint8_t",
    "n": "void *",
    **{letter: f"{sign}int{8 << i // 2}_t" for i, letter in enumerate("bBhHiIqQ") for sign in ["u" * (i % 2)]},
    "f": "float",
    "d": "double",
}
"""Types of C by the letters of keys (``_kernels.c``)."""
_BOXES = {"d": "PyFloat_FromDouble", "f": "PyFloat_FromDouble", "?": "PyBool_FromLong", "n": "box_none"}
_READERS = {"d": "as_double(w[{}])", "f": "as_float(w[{}])", "n": "(void *)0"}
_MOST_DIMENSIONS = 9
_COUNTING = r"^define [^\n]*@(NRT_incref|NRT_decref)\([^\n]*\{\n.*?^\}"
_ARRAY = "void *memory, *owner; int64_t size, itemsize; void *data; int64_t shape[{0}], strides[{0}];"


class _NotBuilt(TypeError):
    """A type that ``_kernels.c`` neither reads nor returns."""


def name_no_files() -> None:
    """Change Numba, for the rest of the process, so that the errors which compiled functions raise name no file and no
    line: folders of builds differ, and machine code that is built twice is then the same."""
    from numba.core.callconv import CPUCallConv

    def struct(_: object, kind: type, arguments: tuple[Any, ...], *_place: object) -> tuple[Any, ...]:
        """Return what is pickled of an exception: its class, its arguments without lines that name a file, no place."""
        words = (each.partition('\nFile "')[0] if isinstance(each, str) else each for each in arguments or ())
        return kind, tuple(words), None

    CPUCallConv.build_excinfo_struct = struct


def compiler() -> list[str]:
    """Return the words of the C compiler's command: those of ``$CC``, else of the compiler that built this Python, else
    ``cc``."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def build(called: dict[tuple[Kernel, Any], None], module: Path = MODULE) -> int:
    """Compile kernels for the types of arguments that they were called with, and write them as an extension module.

    Args:
        called: the keys are (kernel, tuple of the types of its arguments as Numba knows them), the values None; each
            must have been compiled by the kernel's dispatcher already.
        module: file to write, replaced in one step; by default the package's own.

    Returns:
        The number of functions in the module, a kernel counted once for each tuple of types. Those whose arguments or
        results the module cannot pass are left out: Numba compiles them when they are called.

    Raises:
        OSError: there is no C compiler, or the module cannot be loaded; loading is tried unless ``LIGHTLOOM_TARGET``
            names another machine.
        CalledProcessError: the compiler failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        entries: list[str] = []
        table: list[str] = []
        objects: list[Path] = []
        for kernel, types in sorted(called, key=lambda call: (call[0].name, str(call[1]))):
            number = len(table)
            try:
                key, entry = _entry(number, kernel, types)
            except _NotBuilt:
                continue
            entries.append(entry)
            table.append(f'    {{"{kernel.name}", "{key}", call{number}}},\n')
            objects.append(Path(folder, f"{number}.o"))
            objects[-1].write_bytes(_machine_code(kernel.dispatcher.overloads[types], f"k{number}"))
        text = "".join(entries) + "static const Entry ENTRIES[] = {\n" + "".join(table) + "    {0},\n};\n"
        Path(folder, "entries.h").write_text(text, encoding="utf-8")
        source, made = MODULE.with_name("_kernels.c"), module.with_name(f"{module.name}.{os.getpid()}")
        options = ["-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-s,--build-id=none,-Bsymbolic"]
        words = [*compiler(), *options, f"-I{folder}", str(source), *map(str, objects), "-lm", "-o", str(made)]
        try:
            subprocess.run(words, check=True)
            if "LIGHTLOOM_TARGET" not in os.environ:
                ctypes.CDLL(str(made), os.RTLD_NOW)  # which fails where a function is missing
            made.replace(module)
        finally:
            made.unlink(missing_ok=True)
    return len(table)


def _entry(number: int, kernel: Kernel, types: tuple[Any, ...]) -> tuple[str, str]:
    """Return the key of a kernel's arguments (the parts from :func:`_leaves` of each, joined), and the source in C of a
    function ``call<number>`` that reads them from words of 64 bits, calls the machine code ``k<number>``, without
    Python's lock where the kernel's option ``nogil`` is set, and boxes its result or raises its error.

    Raises:
        _NotBuilt: arguments or result are of types that ``_kernels.c`` does not know, or the code holds addresses of
            this process.
    """
    key, parameters, passed = "", [], []
    position = 0
    for leaf in (leaf for each in types for leaf in _leaves(each)):
        key += leaf
        if leaf[0] in "CFAcfa" and len(leaf) == 3:
            words = ["void *", "void *", "int64_t", "int64_t", "void *", *["int64_t"] * (2 * int(leaf[1]))]
            passed += [f"({word})w[{position + i}]" for i, word in enumerate(words)]
        elif leaf in _TYPES:
            words = [_TYPES[leaf]]
            passed.append(_READERS.get(leaf, f"({words[0]})w[{{}}]").format(position))
        else:
            words = []
        position += len(words)
        parameters += words
    compiled = kernel.dispatcher.overloads[types]
    if compiled.library.has_dynamic_globals:  # addresses in this process
        raise _NotBuilt(kernel.name)
    result = compiled.signature.return_type
    declared, boxed = _result(result, "r.value")
    alone = bool(kernel.options.get("nogil"))
    return (
        key,
        f"""struct r{number} {{ {declared}value; }};
extern int32_t k{number}({", ".join([f"struct r{number} *", "const Raised **", *parameters])});
static PyObject *call{number}(const int64_t *w)
{{
    struct r{number} r = {{0}};
    const Raised *raised = NULL;
    {"void *thread = PyEval_SaveThread();" if alone else ""}
    int status = k{number}({", ".join(["&r", "&raised", *passed])});
    {"PyEval_RestoreThread(thread);" if alone else ""}
    return status == 0 || status == -2 ? {boxed} : failed(status, raised);
}}
""",
    )


def _leaves(kind: Any) -> Iterator[str]:
    """Yield the parts of the key of a Numba type, one text each: a letter (:func:`_letter`) for a number or None;
    layout (``C``, ``F`` or ``A``), number of dimensions and letter of the dtype for an array, such as ``C2d`` (``c2d``
    where it is read-only); ``(`` and ``)`` around the fields of a tuple, ``<CLASS FIELD FIELD:`` and ``>`` around those
    of a named one.

    Raises:
        _NotBuilt: a type that ``_kernels.c`` does not read, such as a text, an array that is not aligned, of no
            dimension or of too many.
    """
    from numba import types

    if isinstance(kind, types.Array):
        if not kind.aligned or not 1 <= kind.ndim <= _MOST_DIMENSIONS:
            raise _NotBuilt(kind)
        yield f"{kind.layout if kind.mutable else kind.layout.lower()}{kind.ndim}{_letter(kind.dtype)}"
    elif isinstance(kind, types.BaseTuple):
        named = isinstance(kind, types.BaseNamedTuple)
        yield name_tuple(kind.instance_class).decode() if named else "("
        for field in kind:
            yield from _leaves(field)
        yield ">" if named else ")"
    else:
        yield _letter(kind)


def _letter(kind: Any) -> str:
    """Return the letter that stands for a number's type in keys, as NumPy's codes of types: ``?`` for booleans, ``b``,
    ``h``, ``i`` and ``q`` for signed integers of 8 to 64 bits, in capitals for unsigned ones, ``f`` for float32, ``d``
    for float64; also ``n`` for None.

    Raises:
        _NotBuilt: another type, such as complex numbers.
    """
    from numba import types

    if isinstance(kind, types.Boolean):
        return "?"
    if isinstance(kind, types.Integer):
        return "bBhHiIqQ"[2 * (kind.bitwidth.bit_length() - 4) + (not kind.signed)]
    if isinstance(kind, types.Float) and kind.bitwidth in (32, 64):
        return "f" if kind.bitwidth == 32 else "d"
    if kind == types.none:
        return "n"
    raise _NotBuilt(kind)


def _result(kind: Any, place: str) -> tuple[str, str]:
    """Return the C type of a kernel's result of the Numba type ``kind``, a struct for arrays and tuples, with a blank
    behind it, and a C expression that makes a Python object of the result at ``place``, itself a C expression.

    Raises:
        _NotBuilt: arrays not in C order, named tuples, and types that are no numbers.
    """
    from numba import types

    if isinstance(kind, types.Array):
        if kind.layout != "C":
            raise _NotBuilt(kind)
        fields = [f"{place}.{name}" for name in ("memory", "data", "size", "itemsize")]
        letter = {"q": "i8", "Q": "u8"}.get(_letter(kind.dtype), _letter(kind.dtype))  # q is another type of NumPy
        values = [*fields, f'"{letter}"', str(kind.ndim), f"{place}.shape"]
        return f"struct {{ {_ARRAY.format(kind.ndim)} }} ", f"box_array({', '.join(values)})"
    if isinstance(kind, types.BaseTuple):
        if isinstance(kind, types.BaseNamedTuple):
            raise _NotBuilt(kind)
        parts = [_result(field, f"{place}.f{i}") for i, field in enumerate(kind)]
        declared = " ".join(f"{declared}f{i};" for i, (declared, _) in enumerate(parts))
        boxed = ", ".join(boxed for _, boxed in parts)
        return f"struct {{ {declared} }} ", f"box_tuple({len(parts)}, (PyObject *[]){{{boxed}}})"
    letter = _letter(kind)
    box = _BOXES.get(letter, "PyLong_FromLongLong" if letter.islower() else "PyLong_FromUnsignedLongLong")
    return f"{_TYPES[letter]} ", f"{box}({'' if letter == 'n' else place})"


def _machine_code(compiled: Any, name: str) -> bytes:
    """Return the bytes of an object file with a function that Numba compiled (``compiled``), under ``name``, and with
    what it calls. It uses the instructions that every processor has of the machine that ``LIGHTLOOM_TARGET`` names as
    LLVM does (such as ``aarch64-linux-gnu``, for which ``CC`` must build too), by default of this machine."""
    from llvmlite import binding as llvm

    # What counts references was rewritten for this processor when it was compiled; `_kernels.c` has its own.
    text = re.sub(_COUNTING, r"declare void @\1(ptr)", compiled.library.get_llvm_str(), flags=re.MULTILINE | re.DOTALL)
    module = llvm.parse_assembly(text)
    entry = module.get_function(compiled.fndesc.llvm_func_name)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != entry.name:
            value.linkage = "internal"
    entry.linkage, entry.name = "external", name
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(os.environ.get("LIGHTLOOM_TARGET", module.triple))
    machine = target.create_target_machine(cpu="generic", opt=3, reloc="pic", codemodel="default")
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return bytes(machine.emit_object(module))
