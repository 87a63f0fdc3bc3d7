//! The program: see `kubediff --help`. All of it is in the library and in `cli`.

mod cli;
mod log;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
