//! Asks Prometheus' own engine (`tests/cluster/prometheus`) about scrapes.

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::harness::tools;

#[derive(Serialize)]
pub struct Scrape {
    /// Seconds since 1970.
    pub at: f64,
    pub text: String,
}

#[derive(Serialize)]
pub struct Query {
    pub expr: String,
    pub start: f64,
    pub end: f64,
    pub step: f64,
}

#[derive(Debug, Deserialize)]
pub struct Found {
    pub expr: String,
    pub series: Vec<Series>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub points: Vec<(f64, f64)>,
}

impl Query {
    /// Once a second from the first scrape to the last.
    pub fn over(scrapes: &[Scrape], expr: &str) -> Self {
        Self { expr: expr.to_owned(), start: scrapes[0].at, end: scrapes[scrapes.len() - 1].at, step: 1.0 }
    }

    /// At the last scrape.
    pub fn last(scrapes: &[Scrape], expr: &str) -> Self {
        Self::at(&scrapes[scrapes.len() - 1], expr)
    }

    pub fn at(scrape: &Scrape, expr: &str) -> Self {
        Self { expr: expr.to_owned(), start: scrape.at, end: scrape.at, step: 1.0 }
    }
}

/// A query of the dashboard with its variables filled in, as Grafana does: rates are over four scrapes, however far apart
/// they are on a machine that is busy.
pub fn filled(expr: &str, scrapes: &[Scrape]) -> String {
    let gap = scrapes.windows(2).map(|two| two[1].at - two[0].at).fold(1.0, f64::max);
    expr.replace("$job", ".*").replace("$__rate_interval", &format!("{}s", (4.0 * gap).ceil()))
}

pub async fn evaluate(scrapes: &[Scrape], queries: &[Query]) -> Vec<Found> {
    #[derive(Serialize)]
    struct Input<'a> {
        scrapes: &'a [Scrape],
        queries: &'a [Query],
    }
    let input = serde_json::to_vec(&Input { scrapes, queries }).unwrap();
    let program = tools::path("promql").await.unwrap_or_else(|why| panic!("{why}"));
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
