//! `cargo xtask bench`: figures of the operators as they are shipped (release build), measured on a real control plane.
//!
//! Benchmarks only measure and report; whether a figure is good enough is for a reader, or a test, to say.

mod idle;
mod measure;
mod peers;
mod table;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

/// Measure the operators, in their release build
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Idle(idle::Arguments),
}

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// One JSON object a line, one for each operator
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.bench {
        Bench::Idle(arguments) => idle::run(arguments),
    }
}
