//! The documentation holds: what is generated is as the code says, what is a command can be given, and examples come out
//! as shown. `UPDATE_DOCS=1` (`make docs`) writes the generated parts and the outputs of examples anew.

mod commands;
mod examples;
mod generated;
mod pages;
