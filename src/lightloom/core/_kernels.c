/* Calls kernels that Numba compiled when the package was built, without Numba: the extension module
   lightloom.core._kernels, made by lightloom.app.api.compile_ahead of this file, of the kernels' machine code and of
   entries.h, which it writes.

   Arguments are read into a key, which names their types, and words of 64 bits, which Numba's functions take one by one
   (an array is two owners, its size, bytes of an element, its address, shape and strides; a tuple is its fields):

     ? b B h H i I q Q f d   a number: bool, signed and unsigned integers of 8 to 64 bits, floats of 32 and 64
     C2d A1i F3q             an array: its order (C, Fortran, any), dimensions and numbers; in lower case if read-only
     ( ... )  <Name field ...: ... >   a tuple, a named tuple with its fields' names
     n                       None

   Only Python's stable interface is used, declared here so that building needs no headers; one module serves every
   CPython from 3.11. Of arrays it reads the fields that NumPy 2 promises extensions. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(long) == 8 && sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "words are read as on 64-bit machines whose integers begin with their lowest byte");

typedef intptr_t Py_ssize_t;
typedef struct _type PyTypeObject;
typedef struct {
    Py_ssize_t count;
    PyTypeObject *type;
} PyObject;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *const *, Py_ssize_t);
typedef struct {
    const char *name;
    PyCFunction function;
    int flags;
    const char *doc;
} PyMethodDef;
typedef struct {
    PyObject base;
    PyObject *(*init)(void);
    Py_ssize_t index;
    PyObject *copy;
    const char *name, *doc;
    Py_ssize_t size;
    PyMethodDef *methods;
    void *slots, *traverse, *clear, *free;
} PyModuleDef;
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;

extern PyTypeObject PyBool_Type, PyFloat_Type, PyLong_Type, PyTuple_Type;
extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_NotImplementedStruct;
extern PyObject *PyExc_RuntimeError;
int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
double PyFloat_AsDouble(PyObject *);
long long PyLong_AsLongLongAndOverflow(PyObject *, int *);
void *PyLong_AsVoidPtr(PyObject *);
PyObject *PyLong_FromVoidPtr(void *);
PyObject *PyLong_FromLongLong(long long);
PyObject *PyLong_FromUnsignedLongLong(unsigned long long);
PyObject *PyFloat_FromDouble(double);
PyObject *PyBool_FromLong(long);
PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
int PyBytes_AsStringAndSize(PyObject *, char **, Py_ssize_t *);
PyObject *PyByteArray_FromStringAndSize(const char *, Py_ssize_t);
PyObject *PyTuple_New(Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyDict_New(void);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
PyObject *PyDict_GetItemString(PyObject *, const char *);
int PyDict_SetItem(PyObject *, PyObject *, PyObject *);
int PyDict_SetItemString(PyObject *, const char *, PyObject *);
PyObject *PyObject_CallFunction(PyObject *, const char *, ...);
PyObject *PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_SetString(PyObject *, const char *);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
PyObject *PyModule_Create2(PyModuleDef *, int);

/* Functions of Numba's runtime that kernels call: arrays that they make, lists that grow, and random numbers. */

typedef struct {
    size_t references;
    void (*destroy)(void *, size_t, void *);
    void *argument, *data;
    size_t size;
} Memory;

void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *memory) { free(memory); }

Memory *NRT_MemInfo_alloc_aligned(size_t size, uint32_t alignment)
{
    Memory *memory = malloc(sizeof *memory + size + alignment);
    if (!memory)
        return NULL;
    uintptr_t start = (uintptr_t)(memory + 1);
    *memory = (Memory){1, NULL, NULL, (void *)((start + alignment - 1) / alignment * alignment), size};
    return memory;
}

Memory *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }

static void destroy_list(void *data, size_t size, void *argument)
{
    (void)size;
    if (argument)
        ((void (*)(void *))argument)(data);
    free(data);
}

Memory *NRT_MemInfo_new_varsize_dtor(size_t size, void *destroy_items)
{
    Memory *memory = malloc(sizeof *memory);
    void *data = malloc(size);
    if (!memory || !data) {
        free(memory);
        free(data);
        return NULL;
    }
    *memory = (Memory){1, destroy_list, destroy_items, data, size};
    return memory;
}

void *NRT_MemInfo_varsize_realloc(Memory *memory, size_t size)
{
    void *data = realloc(memory->data, size);
    if (data) {
        memory->data = data;
        memory->size = size;
    }
    return data;
}

void NRT_MemInfo_call_dtor(Memory *memory)
{
    if (memory->destroy)
        memory->destroy(memory->data, memory->size, memory->argument);
    free(memory);
}

void NRT_incref(Memory *memory)
{
    if (memory)
        __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
}

void NRT_decref(Memory *memory)
{
    if (memory && __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) == 0)
        NRT_MemInfo_call_dtor(memory);
}

/* Kernels reshape contiguous arrays, or such without elements: the new strides follow from the new shape. */
int numba_attempt_nocopy_reshape(intptr_t dimensions, const intptr_t *shape, const intptr_t *strides, intptr_t count,
                                 const intptr_t *new_shape, intptr_t *new_strides, intptr_t itemsize, int fortran)
{
    intptr_t step = itemsize, size = 1;
    for (intptr_t i = 0; i < dimensions; i++)
        size *= shape[i];
    for (intptr_t i = dimensions; i-- > 0; step *= shape[i])
        if (fortran || (size && shape[i] != 1 && strides[i] != step))
            return 0;
    step = itemsize;
    for (intptr_t i = count; i-- > 0; step *= new_shape[i])
        new_strides[i] = step;
    return 1;
}

/* The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998); kernels temper its words themselves. */
enum { STATE = 624, MIDDLE = 397 };

typedef struct {
    int index;
    uint32_t words[STATE];
    int has_gauss;
    double gauss;
    int is_initialized;
} Random;

static _Thread_local Random generator;

void numba_rnd_init(Random *state, uint32_t seed)
{
    for (int i = 0; i < STATE; i++) {
        state->words[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + (uint32_t)i + 1;
    }
    state->index = STATE;
    state->has_gauss = 0;
    state->gauss = 0.0;
    state->is_initialized = 1;
}

Random *numba_get_np_random_state(void)
{
    if (!generator.is_initialized)
        numba_rnd_init(&generator, 0);
    return &generator;
}

void numba_rnd_shuffle(Random *state)
{
    uint32_t *words = state->words;
    for (int i = 0; i < STATE; i++) {
        uint32_t mixed = (words[i] & 0x80000000u) | (words[(i + 1) % STATE] & 0x7fffffffu);
        words[i] = words[(i + MIDDLE) % STATE] ^ (mixed >> 1) ^ (mixed & 1 ? 0x9908b0dfu : 0);
    }
    state->index = 0;
}

/* Arguments: their key and words. */

enum { LARGEST_KEY = 2048, MOST_WORDS = 1024, LARGEST_BUFFER = 8 };

typedef struct {
    char key[LARGEST_KEY];
    int64_t words[MOST_WORDS];
    int letters, count;
} Arguments;

typedef struct {
    PyObject base;
    char *data;
    int dimensions;
    intptr_t *shape, *strides;
    PyObject *owner;
    struct {
        PyObject base;
        PyTypeObject *scalar;
        char kind, letter, order, flags;
        int number;
    } *numbers;
    int flags;
} Array;

enum { C_ORDER = 1, FORTRAN_ORDER = 2, ALIGNED = 0x100, WRITEABLE = 0x400, ARRAY_WORDS = 5 };

/* Letters of our keys by NumPy's numbers of types: bool, then int8, uint8, int16 ... of 64 bits twice, float32, float64. */
static const char LETTERS[] = "?bBhHiIqQqQfd";
static PyTypeObject *array_type;
static PyObject *make_array, *raise_error, *name_tuple, *tuple_names;

/* 1 if all is read, 0 if it is of a kind that no kernel built takes, -1 with an exception. */
static int read_argument(PyObject *value, Arguments *into);

static int read_array(Array *array, Arguments *into)
{
    int number = array->numbers->number, flags = array->flags, dimensions = array->dimensions;
    if (number < 0 || number >= (int)sizeof LETTERS - 1 || dimensions < 1 || dimensions > 9 || !(flags & ALIGNED) ||
        array->numbers->order == '>' || into->letters + 3 > LARGEST_KEY ||
        into->count + ARRAY_WORDS + 2 * dimensions > MOST_WORDS)
        return 0;
    char order = flags & C_ORDER ? 'C' : flags & FORTRAN_ORDER ? 'F' : 'A', letter = LETTERS[number];
    into->key[into->letters++] = flags & WRITEABLE ? order : (char)(order | 0x20);
    into->key[into->letters++] = (char)('0' + dimensions);
    into->key[into->letters++] = letter;
    int64_t *words = into->words + into->count, size = 1;
    for (int i = 0; i < dimensions; i++) {
        words[ARRAY_WORDS + i] = array->shape[i];
        words[ARRAY_WORDS + dimensions + i] = array->strides[i];
        size *= array->shape[i];
    }
    words[0] = words[1] = 0;
    words[2] = size;
    words[3] = strchr("?bB", letter) ? 1 : strchr("hH", letter) ? 2 : strchr("iIf", letter) ? 4 : 8;
    words[4] = (int64_t)(intptr_t)array->data;
    into->count += ARRAY_WORDS + 2 * dimensions;
    return 1;
}

static int read_tuple(PyObject *value, Arguments *into)
{
    char close = ')';
    if (into->letters + 2 > LARGEST_KEY)
        return 0;
    if (value->type == &PyTuple_Type) {
        into->key[into->letters++] = '(';
    } else {
        PyObject *name = PyDict_GetItemWithError(tuple_names, (PyObject *)value->type);
        if (!name) {
            if (PyErr_Occurred() || !(name = PyObject_CallFunction(name_tuple, "O", value->type)))
                return -1;
            int kept = PyDict_SetItem(tuple_names, (PyObject *)value->type, name);
            Py_DecRef(name);
            if (kept)
                return -1;
        }
        char *letters;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(name, &letters, &length))
            return -1;
        if (into->letters + length + 1 > LARGEST_KEY)
            return 0;
        memcpy(into->key + into->letters, letters, (size_t)length);
        into->letters += (int)length;
        close = '>';
    }
    for (Py_ssize_t i = 0, size = PyTuple_Size(value); i < size; i++) {
        int done = read_argument(PyTuple_GetItem(value, i), into);
        if (done != 1)
            return done;
    }
    if (into->letters == LARGEST_KEY)
        return 0;
    into->key[into->letters++] = close;
    return 1;
}

/* A number of NumPy's: it shows its memory as an array without dimensions does. */
static int read_scalar(PyObject *value, char *letter, int64_t *word)
{
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, 4)) { /* with its format */
        PyErr_Clear();
        return 0;
    }
    int known = view.ndim == 0 && view.format && view.format[0] && !view.format[1] && view.itemsize <= LARGEST_BUFFER;
    if (known) {
        *letter = view.format[0] == 'l' ? 'q' : view.format[0] == 'L' ? 'Q' : view.format[0];
        known = strchr(LETTERS, *letter) != NULL;
        *word = 0;
        memcpy(word, view.buf, (size_t)view.itemsize);
    }
    PyBuffer_Release(&view);
    return known;
}

static int read_argument(PyObject *value, Arguments *into)
{
    if (value->type == array_type)
        return read_array((Array *)value, into);
    if (PyType_IsSubtype(value->type, &PyTuple_Type))
        return read_tuple(value, into);
    if (into->letters == LARGEST_KEY || into->count == MOST_WORDS)
        return 0;
    char letter;
    int64_t word;
    if (value->type == &PyBool_Type) {
        letter = '?';
        word = value == &_Py_TrueStruct;
    } else if (value->type == &PyLong_Type) {
        int overflow;
        word = PyLong_AsLongLongAndOverflow(value, &overflow);
        letter = 'q';
        if (overflow)
            return 0;
    } else if (PyType_IsSubtype(value->type, &PyFloat_Type)) {
        double number = PyFloat_AsDouble(value);
        memcpy(&word, &number, sizeof word);
        letter = 'd';
    } else if (value == &_Py_NoneStruct) {
        letter = 'n';
        word = 0;
    } else if (!read_scalar(value, &letter, &word)) {
        return 0;
    }
    into->key[into->letters++] = letter;
    into->words[into->count++] = word;
    return 1;
}

/* Results. */

typedef struct {
    const char *pickled;
    int32_t size;
    void *more, *unwrap;
    int32_t count;
} Raised;

static PyObject *box_array(Memory *memory, const void *data, int64_t size, int64_t itemsize, const char *letter,
                           int dimensions, const int64_t *shape)
{
    PyObject *sizes = PyTuple_New(dimensions);
    for (int i = 0; sizes && i < dimensions; i++)
        PyTuple_SetItem(sizes, i, PyLong_FromLongLong(shape[i]));
    PyObject *held = PyByteArray_FromStringAndSize(data, size * itemsize);
    PyObject *array = sizes && held ? PyObject_CallFunction(make_array, "OsO", sizes, letter, held) : NULL;
    if (sizes)
        Py_DecRef(sizes);
    if (held)
        Py_DecRef(held);
    NRT_decref(memory);
    return array;
}

static PyObject *box_none(void)
{
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* A tuple of new references, which it takes; NULL if one is. */
static PyObject *box_tuple(int size, PyObject **fields)
{
    int complete = 1;
    for (int i = 0; i < size; i++)
        complete &= fields[i] != NULL;
    PyObject *tuple = complete ? PyTuple_New(size) : NULL;
    for (int i = 0; i < size; i++)
        if (tuple)
            PyTuple_SetItem(tuple, i, fields[i]);
        else if (fields[i])
            Py_DecRef(fields[i]);
    return tuple;
}

/* Text of exceptions whose arguments a kernel computes: nothing makes them here, and this is not of Python's stable
   interface. */
PyObject *PyUnicode_FromKindAndData(int kind, const void *letters, Py_ssize_t length)
{
    (void)kind, (void)letters, (void)length;
    return NULL;
}

/* The exception of a kernel, as Numba pickled it when it compiled. */
static PyObject *failed(int status, const Raised *raised)
{
    if (status == 1 && raised && raised->count == 0) {
        PyObject *pickled = PyBytes_FromStringAndSize(raised->pickled, raised->size);
        PyObject *nothing = pickled ? PyObject_CallFunction(raise_error, "O", pickled) : NULL;
        if (pickled)
            Py_DecRef(pickled);
        if (nothing)
            Py_DecRef(nothing);
        if (PyErr_Occurred())
            return NULL;
    }
    PyErr_SetString(PyExc_RuntimeError, "a compiled kernel failed");
    return NULL;
}

typedef PyObject *(*Kernel)(const int64_t *words);

typedef struct {
    const char *kernel, *key;
    Kernel call;
} Entry;

static inline double as_double(int64_t word)
{
    double number;
    memcpy(&number, &word, sizeof number);
    return number;
}

static inline float as_float(int64_t word)
{
    float number;
    memcpy(&number, &word, sizeof number);
    return number;
}

#include "entries.h"

/* call(kernels, arguments): the result of the kernel in the dictionary {key: address} that takes such arguments;
   NotImplemented if none does. */
static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    Arguments read;
    read.letters = read.count = 0;
    int done = count == 2;
    for (Py_ssize_t i = 0, size = done ? PyTuple_Size(given[1]) : 0; done == 1 && i < size; i++)
        done = read_argument(PyTuple_GetItem(given[1], i), &read);
    if (done < 0)
        return NULL;
    PyObject *address = NULL;
    if (done) {
        PyObject *key = PyBytes_FromStringAndSize(read.key, read.letters);
        if (!key)
            return NULL;
        address = PyDict_GetItemWithError(given[0], key);
        Py_DecRef(key);
        if (!address && PyErr_Occurred())
            return NULL;
    }
    if (!address) {
        Py_IncRef(&_Py_NotImplementedStruct);
        return &_Py_NotImplementedStruct;
    }
    return ((Kernel)PyLong_AsVoidPtr(address))(read.words);
}

/* attach(ndarray, make_array, raise_error, name_tuple): take what the module needs of Python; return
   {kernel: {key: address}}. */
static PyObject *attach(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    if (count != 4 || !(tuple_names = PyDict_New()))
        return failed(0, NULL);
    for (int i = 0; i < 4; i++)
        Py_IncRef(given[i]);
    array_type = (PyTypeObject *)given[0];
    make_array = given[1];
    raise_error = given[2];
    name_tuple = given[3];
    PyObject *table = PyDict_New();
    for (const Entry *entry = ENTRIES; table && entry->kernel; entry++) {
        PyObject *built = PyDict_GetItemString(table, entry->kernel);
        if (!built) {
            built = PyDict_New();
            PyDict_SetItemString(table, entry->kernel, built);
            Py_DecRef(built);
        }
        PyObject *key = PyBytes_FromStringAndSize(entry->key, (Py_ssize_t)strlen(entry->key));
        PyObject *address = PyLong_FromVoidPtr((void *)entry->call);
        PyDict_SetItem(built, key, address);
        Py_DecRef(key);
        Py_DecRef(address);
    }
    return table;
}

enum { FASTCALL = 0x80, STABLE_INTERFACE = 3 };

static PyMethodDef methods[] = {
    {"call", call, FASTCALL, "Call the kernel that takes such arguments."},
    {"attach", attach, FASTCALL, "Return the kernels that were built."},
    {0},
};
static PyModuleDef module = {{1, NULL}, NULL, 0, NULL, "_kernels", "Kernels compiled when the package was built.", -1, methods,
                             NULL, NULL, NULL, NULL};

__attribute__((visibility("default"))) PyObject *PyInit__kernels(void)
{
    return PyModule_Create2(&module, STABLE_INTERFACE);
}
