//! The figures as a table, on the terminal and in `docs/benchmarks.md`.

use std::{fmt::Write as _, path::Path, time::Duration};

use crate::{
    budget::{self, millis},
    fleet,
    machine::{commit, machine},
    measure::{Asked, Figures, Measured},
    plot::{Plot, Series},
};

pub struct Report {
    pub sizes: Vec<Measured>,
    machine: String,
    commit: String,
    date: String,
}

impl Report {
    pub fn new() -> Self {
        Self {
            sizes: Vec::new(),
            machine: machine(),
            commit: commit(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        }
    }

    /// Tables that read the same on a terminal and as Markdown.
    pub fn text(&self) -> String {
        let mut text = format!("{}; commit {}; {}\n", self.machine, self.commit, self.date);
        for measured in &self.sizes {
            let _ = write!(
                text,
                "\n## {}\n\nA pod is {} bytes, a ConfigMap {}.\n\n",
                measured.size, measured.pod_bytes, measured.configmap_bytes
            );
            text.push_str(&table(&rows(measured)));
            let budgets = budget::of(measured);
            if !budgets.is_empty() {
                let mut rows = vec![["budget", "at most", "is", ""].map(str::to_owned).to_vec()];
                for budget in budgets {
                    let met = if budget.met { "met" } else { "**missed**" };
                    rows.push(vec![budget.what, budget.most, budget.is, met.to_owned()]);
                }
                text.push('\n');
                text.push_str(&table(&rows));
            }
        }
        text
    }

    /// Writes the page and its plots; returns the page's path.
    pub fn write(&self) -> std::io::Result<String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        std::fs::create_dir_all(docs.join("benchmarks"))?;
        std::fs::write(docs.join("benchmarks/memory.svg"), self.memory_plot().svg())?;
        std::fs::write(docs.join("benchmarks/latency.svg"), self.latency_plot().svg())?;
        let page = format!(
            "# Benchmarks\n\n\
             Written by `make bench`; do not edit. kubediff and a plain Go program on client-go's dynamic shared informers\n\
             (`benches/baseline`: caches unstructured objects, deep-compares, posts a webhook, keeps nothing on disk), one\n\
             after the other on the same control plane, with the same objects, changes and receiver.\n\n\
             How it is measured: memory is what the kernel says (VmHWM, VmRSS). Time to sync is from the start of the\n\
             process until it says that it is synced. Latency is from the answer to the write until the webhook's body is\n\
             received; up to 300 changes a second are PATCH requests, more than that are written straight into etcd, since\n\
             the API server's own writing would take the whole machine. Changes are half pods (an image), half ConfigMaps (a\n\
             value). CPU a change is user and system time of the whole process, sending included, at that rate. Requests\n\
             and bytes are counted by a proxy in a run of their own; bytes are those that the server sent, on the wire. Those of\n\
             an hour are computed from a shorter count (`IDLE=3600 make bench` counts a whole one): watches are renewed every\n\
             5 to 10 minutes, so a short count shows more or fewer of them. Small objects are ConfigMaps, large ones\n\
             pods; how many bytes each has stands below. [A million small objects](benchmarks/million.md) have a page of their\n\
             own. The micro-benchmarks are `cargo bench --bench redact` (with parsing), `diff`, `event`, `route` and `store`.\n\n\
             {}{}\n\
             ![Memory against objects](benchmarks/memory.svg)\n\n![Latency against rate](benchmarks/latency.svg)\n",
            self.text(),
            fleet::section(&self.sizes).unwrap_or_default()
        );
        let path = docs.join("benchmarks.md");
        std::fs::write(&path, page)?;
        Ok("docs/benchmarks.md".to_owned())
    }

    fn memory_plot(&self) -> Plot {
        let mut plot = Plot::new("Memory against objects", "objects", "peak RSS, MB");
        for name in self.names() {
            let of = |peak: bool| {
                let points = self.sizes.iter().filter_map(|measured| {
                    let figures = measured.subjects.iter().find(|figures| figures.name == name)?;
                    let kib = if peak { figures.peak } else { figures.steady };
                    Some((measured.size.objects() as f64, kib as f64 / 1024.0))
                });
                points.collect()
            };
            plot.series.push(Series { name: format!("{name}, peak"), points: of(true) });
            plot.series.push(Series { name: format!("{name}, steady"), points: of(false) });
        }
        plot
    }

    /// At the size that is nearest to the usual one.
    fn latency_plot(&self) -> Plot {
        let mut plot = Plot::new("Latency against rate", "changes a second", "ms from commit to receipt");
        let Some(measured) = self.sizes.iter().min_by_key(|measured| measured.size.objects().abs_diff(20_000)) else {
            return plot;
        };
        plot.title = format!("Latency against rate, {}", measured.size);
        for figures in &measured.subjects {
            for percent in [50, 99] {
                let points = figures.runs.iter().filter_map(|(run, _)| {
                    Some((f64::from(run.asked), run.percentile(percent)?.as_secs_f64().max(1e-4) * 1e3))
                });
                plot.series.push(Series { name: format!("{}, p{percent}", figures.name), points: points.collect() });
            }
        }
        plot
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for figures in self.sizes.iter().flat_map(|measured| &measured.subjects) {
            if !names.contains(&figures.name) {
                names.push(figures.name);
            }
        }
        names
    }
}

/// A figure of a subject: its value, and how it is written.
type Figure = dyn Fn(&Figures) -> Option<(f64, String)>;

/// A line of the table: a name, and a value with its text for each program. The last column is the ratio of the last
/// program's to the first's.
struct Line {
    name: String,
    of: Box<Figure>,
}

fn line(name: impl Into<String>, of: impl Fn(&Figures) -> Option<(f64, String)> + 'static) -> Line {
    Line { name: name.into(), of: Box::new(of) }
}

fn rows(measured: &Measured) -> Vec<Vec<String>> {
    let memory = |kib: u64| Some((kib as f64, format!("{:.1} MB", kib as f64 / 1024.0)));
    let seconds = |d: Duration| Some((d.as_secs_f64(), format!("{:.2} s", d.as_secs_f64())));
    let requests = |asked: Option<Asked>| {
        let Asked { lists, streaming_lists, watches, others, .. } = asked?;
        let all = lists + streaming_lists + watches + others;
        let text = format!("{lists} lists, {streaming_lists} streaming lists, {watches} watches, {others} others");
        Some((all as f64, text))
    };
    let bytes = |asked: Option<Asked>| {
        let bytes = asked?.bytes as f64;
        Some((bytes, if bytes < 1e6 { format!("{:.1} kB", bytes / 1e3) } else { format!("{:.1} MB", bytes / 1e6) }))
    };
    let kubectl = measured.kubectl.as_secs_f64();
    let objects = measured.size.objects().max(1) as f64;
    let idle = measured.idle.as_secs_f64();
    let an_hour = 3600.0 / idle.max(1.0);
    let mut lines = vec![
        line("peak RSS, initial list included", move |f| memory(f.peak)),
        line("steady RSS", move |f| memory(f.steady)),
        line("steady RSS, anonymous pages", move |f| memory(f.steady_anonymous)),
        line("peak RSS after all changes", move |f| memory(f.peak_loaded)),
        line("steady RSS after all changes", move |f| memory(f.steady_loaded)),
        line("time to sync", move |f| seconds(f.sync)),
        line(format!("time to sync / kubectl get --raw ({kubectl:.2} s)"), move |f| {
            let times = f.sync.as_secs_f64() / kubectl;
            Some((times, format!("{times:.2}")))
        }),
        line("CPU to sync", move |f| seconds(f.sync_cpu)),
    ];
    let rates = measured.subjects.first().map_or(0, |figures| figures.runs.len());
    for i in 0..rates {
        let asked = measured.subjects[0].runs[i].0.asked;
        let percentile = move |percent: usize| {
            move |f: &Figures| {
                let latency = f.runs.get(i)?.0.percentile(percent)?;
                Some((latency.as_secs_f64(), millis(latency)))
            }
        };
        lines.push(line(format!("{asked}/s: latency p50"), percentile(50)));
        lines.push(line(format!("{asked}/s: latency p99"), percentile(99)));
        lines.push(line(format!("{asked}/s: CPU a change"), move |f| {
            let cpu = f.runs.get(i)?.1;
            Some((cpu.as_secs_f64(), format!("{} us", cpu.as_micros())))
        }));
        lines.push(line(format!("{asked}/s: made / received a second, missing"), move |f| {
            let run = &f.runs.get(i)?.0;
            Some((f64::NAN, format!("{:.0} / {:.0}, {} of {}", run.made, run.received, run.missing, run.changes)))
        }));
    }
    lines.extend([
        line("restart: time to sync", move |f| seconds(f.restart.sync)),
        line("restart: CPU to sync", move |f| seconds(f.restart.cpu)),
        line("restart: changes made while down that arrived", |f| {
            Some((f64::NAN, format!("{} of {}", f.restart.arrived, f.restart.made)))
        }),
        line("requests at a cold start", move |f| requests(f.cold)),
        line("bytes at a cold start", move |f| bytes(f.cold)),
        line(format!("requests an hour at rest, from {idle:.0} s"), move |f| {
            requests(f.idle.map(|a| a.times(an_hour)))
        }),
        line(format!("bytes an hour at rest, from {idle:.0} s"), move |f| bytes(f.idle.map(|a| a.times(an_hour)))),
        line("requests at a restart", move |f| requests(f.warm)),
        line("bytes at a restart", move |f| bytes(f.warm)),
        line("on disk, an object", move |f| {
            let bytes = f.disk.as_ref()?.empty? as f64 / objects;
            Some((f64::NAN, format!("{bytes:.0} B")))
        }),
        line("on disk, an event", |f| {
            let disk = f.disk.as_ref()?;
            let bytes = disk.loaded.saturating_sub(disk.empty?) as f64 / disk.events.max(1) as f64;
            Some((f64::NAN, format!("{bytes:.0} B")))
        }),
    ]);
    let mut header = vec![String::new()];
    header.extend(measured.subjects.iter().map(|figures| figures.name.to_owned()));
    if measured.subjects.len() == 2 {
        header.push("ratio".to_owned());
    }
    let mut rows = vec![header];
    for line in lines {
        let values: Vec<_> = measured.subjects.iter().map(|figures| (line.of)(figures)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![line.name];
        row.extend(values.iter().map(|value| value.as_ref().map_or("-".to_owned(), |(_, text)| text.clone())));
        if let [first, last] = values.as_slice() {
            let ratio = first.as_ref().zip(last.as_ref()).map(|((a, _), (b, _))| b / a);
            row.push(ratio.filter(|ratio| ratio.is_finite()).map_or(String::new(), |ratio| format!("{ratio:.1}")));
        }
        rows.push(row);
    }
    rows
}

/// Aligned, and valid Markdown. The first row is the header.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0).max(3)).collect();
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if n == 0 {
            for (i, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(*width);
                let _ = if i == 0 { write!(text, "|-{dashes}-") } else { write!(text, "|-{dashes}:") };
            }
            text.push_str("|\n");
        }
    }
    text
}
