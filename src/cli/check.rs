//! `kubediff check`: whether a configuration is right, and what it would do. No cluster is needed.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use kubediff::{
    config::{AT_START, Changes, Lookup, Plan, Sources},
    redact,
    route::Route,
    sink::Target,
};

/// Check a configuration, offline
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff check --config kubediff.toml                         right or wrong, and what it does
  kubediff check --config new.toml --in-place-of kubediff.toml  what a reload would change, and what needs a restart")]
pub(crate) struct Args {
    /// The configuration: TOML, or the old kubediff's YAML
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    /// The configuration that runs now: what would change, and which keys need a restart
    #[arg(long, value_name = "FILE")]
    in_place_of: Option<PathBuf>,
    /// Do not look for the files and variables that hold secrets
    #[arg(long)]
    skip_secrets: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut sources = Sources::new(args.config);
    if args.skip_secrets {
        sources.lookup = Lookup::Skip;
    }
    let running = args.in_place_of.map(|path| Sources { path: Some(path), ..sources.clone() }.load()).transpose();
    match (sources.load(), running) {
        (Ok(plan), Ok(running)) => {
            let change = running.map_or_else(any_change, |running| changes(&plan.changes(&running)));
            write!(io::stdout(), "ok\n{}{change}", account(&plan))?;
            Ok(ExitCode::SUCCESS)
        }
        (found, running) => {
            for problems in [found.err(), running.err()].into_iter().flatten() {
                writeln!(io::stderr(), "{problems}")?;
            }
            Ok(ExitCode::from(2))
        }
    }
}

/// What a reload would do, and what it would not.
fn changes(changes: &Changes) -> String {
    let names = |names: &[String]| names.join(", ");
    let at_once = [
        ("sinks that are new", names(&changes.sinks_added)),
        ("sinks that change", names(&changes.sinks_changed)),
        ("sinks that go", names(&changes.sinks_removed)),
    ];
    let mut at_once: Vec<String> =
        at_once.iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what}: {names}")).collect();
    at_once.extend(changes.routes.then(|| "who gets what".to_owned()));
    at_once.extend(changes.watch.then(|| "what is watched, but for what follows".to_owned()));
    let at_once = if at_once.is_empty() { "nothing".to_owned() } else { at_once.join("; ") };
    let at_start = if changes.at_start.is_empty() { "nothing".to_owned() } else { changes.at_start.join(", ") };
    format!("reload    {at_once}\nrestart   {at_start}\n")
}

/// What will be watched and where it goes, in a few lines.
fn account(plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |head: &str, text: String| out.push_str(&format!("{head:<9} {text}\n"));
    let watch = &plan.file.watch;
    let mut what = match watch.include.as_slice() {
        [all] if all == "*" => "everything".to_owned(),
        include => include.join(", "),
    };
    if !watch.exclude.is_empty() {
        what += &format!(" but {}", watch.exclude.join(", "));
    }
    if !watch.default_exclude.is_empty() {
        what += &format!("; {} noisy kinds only when named", watch.default_exclude.len());
    }
    line("watches", what);
    let mut place = match watch.namespaces.as_slice() {
        [all] if all == "all" => "all namespaces".to_owned(),
        [] => "all namespaces".to_owned(),
        some => format!("the namespaces {}", some.join(", ")),
    };
    if !watch.exclude_namespaces.is_empty() {
        place += &format!(" but {}", watch.exclude_namespaces.join(", "));
    }
    line("in", place);
    let secrets = match watch.secrets {
        redact::Secrets::Hash => "their values hashed",
        redact::Secrets::Metadata => "their metadata alone",
        redact::Secrets::Off => "not read",
    };
    line("Secrets", secrets.to_owned());
    line("state", plan.state.path.as_ref().map_or("in memory".to_owned(), |path| path.display().to_string()));
    for (index, sink) in plan.sinks.iter().enumerate() {
        line(if index == 0 { "sinks" } else { "" }, format!("{} ({})", sink.name, kind(&sink.target)));
    }
    let mut routes = Vec::new();
    describe(&plan.file.routes, &plan.file.default_sinks, 0, &mut routes);
    let rest = match (plan.file.default_sinks.as_slice(), plan.file.routes.is_empty()) {
        ([], true) => "everything goes to every sink".to_owned(),
        ([], false) => "what no route takes goes nowhere".to_owned(),
        (some, true) => format!("everything goes to {}", some.join(", ")),
        (some, false) => format!("what no route takes goes to {}", some.join(", ")),
    };
    routes.push(rest);
    for (index, route) in routes.into_iter().enumerate() {
        line(if index == 0 { "routes" } else { "" }, route);
    }
    for (index, note) in plan.notes.iter().enumerate() {
        line(if index == 0 { "note" } else { "" }, note.clone());
    }
    for (index, silence) in plan.file.silences.iter().enumerate() {
        line(if index == 0 { "silences" } else { "" }, silence.reason.clone());
    }
    out
}

/// What a change of the file does, whichever it is.
fn any_change() -> String {
    format!("restart   for a change of {}; all else is taken up at once\n", tables(AT_START))
}

/// `watch.secrets, state.*`: a table of which all keys are meant by its name.
fn tables(keys: &[&str]) -> String {
    let mut named: Vec<String> = Vec::new();
    for key in keys {
        let name = match key.split_once('.') {
            Some(("watch", _)) | None => (*key).to_owned(),
            Some((table, _)) => format!("{table}.*"),
        };
        if !named.contains(&name) {
            named.push(name);
        }
    }
    named.join(", ")
}

fn describe(routes: &[Route], default_sinks: &[String], depth: usize, out: &mut Vec<String>) {
    for (index, route) in routes.iter().enumerate() {
        let name = if route.name.is_empty() { format!("number {}", index + 1) } else { route.name.clone() };
        let to = match (&route.drop, route.sinks.as_slice()) {
            (Some(reason), _) => format!("dropped: {reason}"),
            (None, []) if depth > 0 => "as around it".to_owned(),
            (None, []) if !default_sinks.is_empty() => format!("{}, by default_sinks", default_sinks.join(", ")),
            (None, []) => "nobody but by the routes in it".to_owned(),
            (None, sinks) => sinks.join(", "),
        };
        let more = if route.go_on { ", and on" } else { "" };
        out.push(format!("{:indent$}{name} -> {to}{more}", "", indent = depth * 2));
        describe(&route.routes, default_sinks, depth + 1, out);
    }
}

pub(super) fn kind(target: &Target) -> &'static str {
    match target {
        Target::Stdout(_) => "stdout",
        Target::Webhook(_) => "webhook",
        Target::Slack(_) => "slack",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_says_what_is_watched_and_where_it_goes() {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Now };
        let account = |text: &str| account(&sources.build("", text).unwrap_or_else(|problems| panic!("{problems}")));
        assert_eq!(
            account(""),
            "watches   everything; 14 noisy kinds only when named\nin        all namespaces\n\
             Secrets   their values hashed\nstate     kubediff.db\nsinks     stdout (stdout)\n\
             routes    everything goes to every sink\n"
        );
        assert_eq!(
            any_change(),
            "restart   for a change of cluster, watch.secrets, watch.audit_interval_secs, watch.concurrent_lists, \
             watch.page_size, watch.watch_timeout_secs, redact.*, noise.*, state.*, server.*, ha.*; all else is taken \
             up at once\n"
        );
        let text = "[watch]\nnamespaces = ['shop']\nsecrets = 'off'\n[sinks.a]\ntype = 'stdout'\n\
                    [[routes]]\nname = 'hands'\nsinks = ['a']\ncontinue = true\n[[routes.routes]]\n[[routes]]\ndrop = 'x'\n";
        let text = account(text);
        assert!(text.contains("in        the namespaces shop\n"), "{text}");
        let routes = "routes    hands -> a, and on\n            number 1 -> as around it\n          \
                      number 2 -> dropped: x\n          what no route takes goes nowhere\n";
        assert!(text.contains(routes), "{text}");
        assert!(
            text.contains("note      annotations kubediff.io/ignore and kubediff.io/sinks are heeded on objects alone")
        );
        let text = account("default_sinks = ['a']\n[sinks.a]\ntype = 'stdout'\n[[routes]]\nname = 'rest'\n");
        assert!(text.contains("routes    rest -> a, by default_sinks\n"), "{text}");
        assert!(!text.contains("note"), "{text}");
    }

    #[test]
    fn what_a_reload_would_change_is_told_apart_from_what_needs_a_restart() {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Now };
        let plan = |text: &str| sources.build("", text).unwrap_or_else(|problems| panic!("{problems}"));
        let old = plan("[sinks.a]\ntype = 'stdout'\n[sinks.b]\ntype = 'stdout'\n");
        let same = "reload    nothing\nrestart   nothing\n";
        assert_eq!(changes(&old.changes(&old)), same);
        let new = plan("cluster = 'x'\n[watch]\nsecrets = 'off'\n[sinks.a]\ntype = 'stdout'\nformat = 'ecs'\n");
        let told = "reload    sinks that change: a; sinks that go: b; what is watched, but for what follows\n\
                    restart   cluster, watch.secrets\n";
        assert_eq!(changes(&new.changes(&old)), told);
    }
}
