/* A method that hands small arrays to another function before Python would have begun to run the method itself.

   method(type, ...) is a method of `type`. Called as m(self, send, receive[, op]), op by position or by name, it looks
   whether self and the length and dtype of `receive` were remembered, and whether `send` is like it and nothing else is
   wrong with them. If so it is fast(self, send, receive[, op]), else slow with all that was given, which says what is
   wrong. An array is an ndarray, or a list of one and an MPI datatype; `send` may be IN_PLACE.

   It costs some 20 ns: a look at an attribute, through Python, costs five times as much. So what is remembered stands in a
   table here, and arrays are read as NumPy's own macros read them in every extension module. Only functions of Python's
   stable ABI are called (PyObject_Vectorcall is in every Python since 3.9), found in the running interpreter: neither
   headers nor a library of Python are needed. */

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct object {
    ptrdiff_t references;
    struct object *type;
} Object;
typedef struct {
    Object head;
    const char *data;
    int dimensions;
    ptrdiff_t *shape, *strides;
    Object *base, *dtype;
    int flags;
} Array; /* as far as it is needed: see fits() */
typedef struct {
    const char *name;
    Object *(*function)(Object *, Object *const *, ptrdiff_t, Object *);
    int flags;
    const char *documentation;
} Definition; /* PyMethodDef */

enum { IN_ORDER = 3, OWN = 4, WRITEABLE = 0x400 }; /* of NumPy's flags: in C's order, or Fortran's */
enum { METH_KEYWORDS = 2, METH_FASTCALL = 128 };

extern Object *PyDescr_NewMethod(Object *type, Definition *);
extern Object *PyList_GetItem(Object *, ptrdiff_t);
extern ptrdiff_t PyList_Size(Object *);
extern Object *PyObject_Vectorcall(Object *, Object *const *, size_t, Object *);
extern Object *PyTuple_GetItem(Object *, ptrdiff_t);
extern ptrdiff_t PyTuple_Size(Object *);
extern Object *PyUnicode_InternFromString(const char *);
extern void Py_DecRef(Object *);
extern void Py_IncRef(Object *);

static Object *fast, *slow, *ndarray, *list, *datatype, *in_place, *op_name; /* kept for ever */

enum { BITS = 8 };
static struct known {
    const Object *comm; /* not kept: forget() is called for every new one, also where an old one was */
    Object *dtype;      /* kept */
    ptrdiff_t length, bytes;
} table[1 << BITS];

static struct known *place(const Object *comm, ptrdiff_t length)
{
    uint64_t key = ((uintptr_t)comm >> 4) + (uint64_t)length * 31;
    return table + (key * 0x9e3779b97f4a7c15u >> (64 - BITS));
}

static const Array *array(Object *x)
{
    if (x->type == list && PyList_Size(x) == 2 && PyList_GetItem(x, 1)->type == datatype)
        x = PyList_GetItem(x, 0);
    return x->type == ndarray ? (const Array *)x : NULL;
}

static ptrdiff_t length(const Array *x)
{
    ptrdiff_t n = 1;
    for (int i = 0; i < x->dimensions; i++)
        n *= x->shape[i];
    return n;
}

static int known(const Object *comm, Object *send, Object *receive)
{
    const Array *out = array(receive), *x = send == in_place ? out : array(send);
    if (!out || !x || !(out->flags & IN_ORDER) || !(out->flags & WRITEABLE))
        return 0;
    ptrdiff_t n = length(out);
    const struct known *found = place(comm, n);
    if (found->comm != comm || found->length != n || found->dtype != out->dtype)
        return 0;
    if (send == in_place)
        return 1;
    int apart = x->data + found->bytes <= out->data || out->data + found->bytes <= x->data;
    return apart && (x->flags & IN_ORDER) && x->dtype == out->dtype && length(x) == n;
}

static Object *call(Object *self, Object *const *given, ptrdiff_t n, Object *names)
{
    ptrdiff_t named = names ? PyTuple_Size(names) : 0, total = n + named;
    int plain = !named || (named == 1 && n == 2 && PyTuple_GetItem(names, 0) == op_name);
    Object *all[1 + total];
    all[0] = self;
    for (ptrdiff_t i = 0; i < total; i++)
        all[1 + i] = given[i];
    if (plain && (total == 2 || total == 3) && known(self, given[0], given[1]))
        return PyObject_Vectorcall(fast, all, 1 + total, NULL);
    return PyObject_Vectorcall(slow, all, 1 + n, names);
}

static Definition definition = {NULL, call, METH_FASTCALL | METH_KEYWORDS, NULL};

/* Whether this Python and this NumPy have the arrays that are read here: x is a matrix of n values at `data`, its own, in
   C's order. */
EXPORT int fits(const Array *x, Object *type, Object *dtype, ptrdiff_t n, const char *data)
{
    int flags = x->flags & (IN_ORDER | OWN | WRITEABLE);
    return x->head.type == type && x->dtype == dtype && length(x) == n && x->data == data && flags == (1 | OWN | WRITEABLE);
}

/* `name` and `documentation` are the method's, and must stay. Called once. */
EXPORT Object *method(Object *type, const char *name, const char *documentation, Object *given[6])
{
    Object **kept[] = {&fast, &slow, &ndarray, &list, &datatype, &in_place};
    for (int i = 0; i < 6; i++) {
        *kept[i] = given[i];
        Py_IncRef(given[i]);
    }
    op_name = PyUnicode_InternFromString("op");
    definition.name = name;
    definition.documentation = documentation;
    return PyDescr_NewMethod(type, &definition);
}

/* From now on arrays like x, an ndarray of so many bytes, are fast's on this communicator. They may be forgotten for others. */
EXPORT void remember(const Object *comm, const Array *x, ptrdiff_t bytes)
{
    struct known *entry = place(comm, length(x));
    Object *old = entry->dtype;
    Py_IncRef(x->dtype);
    *entry = (struct known){comm, x->dtype, length(x), bytes};
    Py_DecRef(old);
}

EXPORT void forget(const Object *comm)
{
    for (struct known *entry = table; entry < table + (1 << BITS); entry++)
        if (entry->comm == comm)
            entry->comm = NULL;
}
