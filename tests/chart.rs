//! The chart and what is generated from it: what Helm 3 and 4 render for values, that the rights are those that the operator
//! uses, that the documents are up to date, and installations into a real API server.

mod documents;
mod helm;
mod installation;
mod matrix;
mod objects;
mod rights;
