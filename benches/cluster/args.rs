//! What can be said on the command line.

use std::{fmt, path::PathBuf, str::FromStr};

/// Measures kubediff and the Go baseline side by side on a real control plane.
#[derive(clap::Parser, Debug)]
pub struct Args {
    /// How many objects: `10000` is 10,000 pods and as many ConfigMaps, `100000+0` is pods alone.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000+0,0+100000")]
    pub sizes: Vec<Size>,
    /// Changes a second.
    #[arg(long, value_delimiter = ',', default_value = "10,200,1000,2000")]
    pub rates: Vec<u32>,
    /// Seconds of changes at each rate.
    #[arg(long, default_value_t = 10)]
    pub seconds: u32,
    /// Seconds of rest after the start, in which steady memory is sampled.
    #[arg(long, default_value_t = 10)]
    pub rest: u32,
    /// Seconds in which requests and bytes at rest are counted, at the first of the sizes (a minute at the others); an hour
    /// of them is computed from that. Watches are renewed every 5 to 10 minutes.
    #[arg(long, default_value_t = 600)]
    pub idle: u32,
    /// `kubediff` or `baseline` alone.
    #[arg(long)]
    pub only: Option<String>,
    /// The kubediff to measure; by default the one that was built with this bench.
    #[arg(long, env = "KUBEDIFF_BIN")]
    pub kubediff: Option<PathBuf>,
    /// In place of all that: this many hours of changes at the first of the rates, and what becomes of memory and files.
    #[arg(long)]
    pub soak_hours: Option<f64>,
    /// Leave out the runs through the proxy that counts requests and bytes.
    #[arg(long)]
    pub no_requests: bool,
    /// Keep smaps and logs of the measured processes in this folder.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Write docs/benchmarks.md and its plots.
    #[arg(long)]
    pub write: bool,
    /// cargo says so to every bench.
    #[arg(long, hide = true)]
    pub bench: bool,
}

/// How many pods and ConfigMaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub pods: usize,
    pub configmaps: usize,
}

impl Size {
    pub fn objects(self) -> usize {
        self.pods + self.configmaps
    }
}

impl FromStr for Size {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (pods, configmaps) = text.split_once('+').unwrap_or((text, text));
        Ok(Self { pods: pods.parse()?, configmaps: configmaps.parse()? })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pods, self.configmaps) {
            (pods, 0) => write!(f, "{} pods", thousands(pods)),
            (0, configmaps) => write!(f, "{} ConfigMaps", thousands(configmaps)),
            (pods, configmaps) => write!(f, "{} pods + {} ConfigMaps", thousands(pods), thousands(configmaps)),
        }
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
