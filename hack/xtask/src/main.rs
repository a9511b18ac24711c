//! The workspace's own tasks: `cargo xtask --help` lists them.

mod assets;
mod bench;
mod codegen;
mod test;
mod up;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The workspace's own tasks", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Assets(assets::Arguments),
    Bench(bench::Arguments),
    Codegen(codegen::Arguments),
    Test(test::Arguments),
    Up(up::Arguments),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Cli::parse().task {
        Task::Assets(arguments) => assets::run(&arguments).map(done),
        Task::Bench(arguments) => bench::run(&arguments).map(done),
        Task::Codegen(arguments) => codegen::run(&arguments).map(done),
        Task::Test(arguments) => test::run(&arguments),
        Task::Up(arguments) => up::run(&arguments).map(done),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
