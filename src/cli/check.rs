//! `kubediff check`: whether a configuration is right, and what it would do. No cluster is needed.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use kubediff::{
    config::{Lookup, Plan, Sources},
    redact,
    route::Route,
    sink::Target,
};

/// Check a configuration, offline
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration: TOML, or the old kubediff's YAML
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    /// Do not look for the files and variables that hold secrets
    #[arg(long)]
    skip_secrets: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut sources = Sources::new(args.config);
    if args.skip_secrets {
        sources.lookup = Lookup::Skip;
    }
    match sources.load() {
        Ok(plan) => {
            write!(io::stdout(), "ok\n{}", account(&plan))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            writeln!(io::stderr(), "{problems}")?;
            Ok(ExitCode::from(2))
        }
    }
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
    describe(&plan.file.routes, 0, &mut routes);
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
    for (index, silence) in plan.file.silences.iter().enumerate() {
        line(if index == 0 { "silences" } else { "" }, silence.reason.clone());
    }
    out
}

fn describe(routes: &[Route], depth: usize, out: &mut Vec<String>) {
    for (index, route) in routes.iter().enumerate() {
        let name = if route.name.is_empty() { format!("number {}", index + 1) } else { route.name.clone() };
        let to = match (&route.drop, route.sinks.as_slice()) {
            (Some(reason), _) => format!("dropped: {reason}"),
            (None, []) if depth > 0 => "as around it".to_owned(),
            (None, []) => "nobody".to_owned(),
            (None, sinks) => sinks.join(", "),
        };
        let more = if route.go_on { ", and on" } else { "" };
        out.push(format!("{:indent$}{name} -> {to}{more}", "", indent = depth * 2));
        describe(&route.routes, depth + 1, out);
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
        let text = "[watch]\nnamespaces = ['shop']\nsecrets = 'off'\n[sinks.a]\ntype = 'stdout'\n\
                    [[routes]]\nname = 'hands'\nsinks = ['a']\ncontinue = true\n[[routes.routes]]\n[[routes]]\ndrop = 'x'\n";
        let text = account(text);
        assert!(text.contains("in        the namespaces shop\n"), "{text}");
        let routes = "routes    hands -> a, and on\n            number 1 -> as around it\n          \
                      number 2 -> dropped: x\n          what no route takes goes nowhere\n";
        assert!(text.contains(routes), "{text}");
    }
}
