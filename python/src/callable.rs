// SPDX-License-Identifier: GPL-2.0-or-later
//! Python functions that Rust calls, with the types of their arguments, which the generated stub then has.

use pyo3::{
    call::PyCallArgs, exceptions::PyTypeError, inspect::PyStaticExpr, prelude::*,
    type_hint_identifier, type_hint_subscript,
};
use std::{marker::PhantomData, slice};

/// A function that takes a tuple of arguments, `A`. What it returns is left alone.
pub struct Callable<A> {
    function: Py<PyAny>,
    arguments: PhantomData<fn(A)>,
}

impl<A> Callable<A> {
    pub fn call<'py>(&self, py: Python<'py>, arguments: A) -> PyResult<()>
    where
        A: PyCallArgs<'py>,
    {
        self.function.bind(py).call1(arguments).map(drop)
    }

    pub fn function(&self) -> &Py<PyAny> {
        &self.function
    }
}

impl<'py, A: IntoPyObject<'py>> FromPyObject<'_, 'py> for Callable<A> {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = type_hint_subscript!(
        type_hint_identifier!("collections.abc", "Callable"),
        PyStaticExpr::List { elts: items(&A::OUTPUT_TYPE) },
        type_hint_identifier!("builtins", "object")
    );

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !object.is_callable() {
            return Err(PyTypeError::new_err("a function is needed"));
        }
        Ok(Self { function: object.to_owned().unbind(), arguments: PhantomData })
    }
}

/// The types of a tuple's items.
const fn items(tuple: &'static PyStaticExpr) -> &'static [PyStaticExpr] {
    match tuple {
        PyStaticExpr::Subscript { slice: PyStaticExpr::Tuple { elts }, .. } => elts,
        PyStaticExpr::Subscript { slice, .. } => slice::from_ref(slice),
        _ => panic!("arguments are a tuple"),
    }
}
