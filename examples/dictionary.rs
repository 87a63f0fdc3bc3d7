//! Makes the dictionary that stored events are compressed with, out of events as JSON lines: `make dictionary`.

use std::io::{Read, Write};

const BYTES: usize = 16 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let samples: Vec<&str> = text.lines().collect();
    let dictionary = zstd::dict::from_samples(&samples, BYTES)?;
    eprintln!("{} events of {} bytes: a dictionary of {}", samples.len(), text.len(), dictionary.len());
    Ok(std::io::stdout().write_all(&dictionary)?)
}
