//! The workspace's own tasks: `cargo xtask --help` lists them.

mod assets;
mod codegen;
mod up;
mod workspace;

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
    Codegen(codegen::Arguments),
    Up(up::Arguments),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().task {
        Task::Assets(arguments) => assets::run(&arguments),
        Task::Codegen(arguments) => codegen::run(&arguments),
        Task::Up(arguments) => up::run(&arguments),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::from(2)
        }
    }
}
