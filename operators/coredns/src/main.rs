//! The `coredns-operator` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match coredns_operator::addon::CoreDns::embedded() {
        Ok(addon) => addon_framework::main(addon),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
