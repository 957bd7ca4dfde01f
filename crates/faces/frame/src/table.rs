//! The table of a face's routes.

use std::marker::PhantomData;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use http::Method;
use stead_domain::key::Verb;

use crate::operation::Operation;

/// One route: what a request must be to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRow {
    /// The method; GET answers HEAD as well.
    pub method: Method,
    /// The path, with names of its parts in braces as the router takes them.
    pub path: &'static str,
    /// Of these verbs a key must have one. Empty where no key is needed.
    pub verbs: &'static [Verb],
}

/// A route and what there is to say about it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The route.
    pub route: RouteRow,
    /// What it takes and answers.
    pub operation: Operation,
}

/// The first argument of a handler: it refuses a request whose key has none of its verbs.
pub trait Gate {
    /// Of these verbs a key must have one. Empty where no key is needed.
    const VERBS: &'static [Verb];
}

/// Arguments of a handler of which the first is a [`Gate`], with the mark that the router puts before them.
pub trait Gated {
    /// What the gate needs.
    const VERBS: &'static [Verb];
}

macro_rules! gated {
    ($($argument:ident)*) => {
        impl<M, G: Gate, $($argument),*> Gated for (M, G, $($argument,)*) {
            const VERBS: &'static [Verb] = G::VERBS;
        }
    };
}

gated!();
gated!(A);
gated!(A B);
gated!(A B C);
gated!(A B C D);
gated!(A B C D E);
gated!(A B C D E F);
gated!(A B C D E F H);

/// Routes being collected.
#[derive(Debug)]
pub struct Routes<S> {
    router: Router<S>,
    rows: Vec<Row>,
    state: PhantomData<fn(S)>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), rows: Vec::new(), state: PhantomData }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn on<H, T>(
        mut self,
        (method, filter): (Method, MethodFilter),
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, S>,
        T: Gated + 'static,
    {
        self.rows.push(Row { route: RouteRow { method, path, verbs: T::VERBS }, operation });
        self.router = self.router.route(path, on(filter, handler));
        self
    }

    /// A route that reads.
    pub fn get<H: Handler<T, S>, T: Gated + 'static>(self, path: &'static str, handler: H, says: Operation) -> Self {
        self.on((Method::GET, MethodFilter::GET), path, handler, says)
    }

    /// A route that makes or starts something.
    pub fn post<H: Handler<T, S>, T: Gated + 'static>(self, path: &'static str, handler: H, says: Operation) -> Self {
        self.on((Method::POST, MethodFilter::POST), path, handler, says)
    }

    /// A route that puts something in the place of what is there.
    pub fn put<H: Handler<T, S>, T: Gated + 'static>(self, path: &'static str, handler: H, says: Operation) -> Self {
        self.on((Method::PUT, MethodFilter::PUT), path, handler, says)
    }

    /// A route that changes a part of what is there.
    pub fn patch<H: Handler<T, S>, T: Gated + 'static>(self, path: &'static str, handler: H, says: Operation) -> Self {
        self.on((Method::PATCH, MethodFilter::PATCH), path, handler, says)
    }

    /// A route that removes.
    pub fn delete<H: Handler<T, S>, T: Gated + 'static>(self, path: &'static str, handler: H, says: Operation) -> Self {
        self.on((Method::DELETE, MethodFilter::DELETE), path, handler, says)
    }

    /// These routes and those of another resource.
    pub fn merge(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        self.router = self.router.merge(other.router);
        self
    }

    /// The router.
    pub fn into_router(self) -> Router<S> {
        self.router
    }

    /// The table.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}
