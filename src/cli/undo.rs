//! `kubediff undo`: the command that takes a change back. It is printed, never run.

use std::io::{self, Write};

use kubediff::{
    event::{Event, Kind},
    history::undo::{patch, quote},
};
use serde_json::json;

use super::{
    history::short,
    history_source::{self, Detail},
};

/// Print the kubectl command that takes a change back
///
/// Nothing is run. The command changes only what the event changed, and does nothing when that was changed again since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff undo 7f0c1a2b3c          the command, to read
  kubediff undo 7f0c1a2b3c | sh     once it was read
  kubediff undo 7f0c1a2b3c -o json | jq .patch
Of something that was created or deleted it says what to do instead. What was masked is not known to kubediff, so a
change of it cannot be taken back: exit code 1.")]
pub(crate) struct Args {
    /// An event's id, or as much of its beginning as no other has
    id: String,
    /// text: the command; json: the command, and the patch in it as RFC 6902
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let detail = args.place.open().await?.detail(&args.id).await?;
    match answer(&detail) {
        Ok(command) => Ok(writeln!(io::stdout(), "{}", text(&detail, &command, args.output))?),
        Err(instead) => anyhow::bail!("{instead}"),
    }
}

fn text(detail: &Detail, command: &str, output: Output) -> String {
    match output {
        Output::Text => command.to_owned(),
        Output::Json => {
            let patch = detail.inverse.as_ref().zip(detail.after.as_ref()).and_then(|(back, after)| patch(back, after));
            format!("{:#}", json!({"command": command, "patch": patch}))
        }
    }
}

/// The command, or what to do instead.
fn answer(detail: &Detail) -> Result<String, String> {
    let event = &detail.event;
    let object = object(event);
    match (event.kind, &detail.undo) {
        (Kind::Updated, Some(command)) => Ok(command.clone()),
        (Kind::Updated, None) => Err(format!(
            "this change cannot be taken back by a command: a value was masked, or status and spec changed together; \
             see kubediff show {} -o diff",
            short(&event.id)
        )),
        (Kind::Created, _) => Err(format!("it was created by this event; to take that back: kubectl delete {object}")),
        (Kind::Deleted, _) => {
            // A moment before it was gone.
            let before = event.time - jiff::SignedDuration::from_millis(1);
            Err(format!(
                "it was deleted by this event; to make it again, read it first: kubediff at {object} {before} \
                 > object.yaml; take out uid and creationTimestamp, put masked values in, then kubectl create -f object.yaml"
            ))
        }
    }
}

fn object(event: &Event) -> String {
    let r = &event.resource;
    let group = if r.group.is_empty() { String::new() } else { format!(".{}", r.group) };
    format!("{}{}", quote(&format!("{}{group}/{}", r.resource, r.name)), namespace(event))
}

fn namespace(event: &Event) -> String {
    let namespace = &event.resource.namespace;
    if namespace.is_empty() { String::new() } else { format!(" -n {}", quote(namespace)) }
}

#[cfg(test)]
mod tests {
    use kubediff::sink::sample;

    use super::*;

    fn detail(kind: Kind, undo: Option<&str>) -> Detail {
        let event = Event { kind, ..sample::event() };
        let undo = undo.map(str::to_owned);
        Detail {
            event,
            before: None,
            after: Some(json!({"spec": {"replicas": 3}})),
            previous: None,
            inverse: serde_json::from_value(json!([{"op": "replace", "path": "/spec/replicas", "value": 1}])).ok(),
            undo,
            deliveries: Vec::new(),
            around: None,
        }
    }

    #[test]
    fn for_machines_the_command_comes_with_its_patch() {
        let detail = detail(Kind::Updated, Some("kubectl patch"));
        assert_eq!(text(&detail, "kubectl patch", Output::Text), "kubectl patch");
        let json: serde_json::Value = serde_json::from_str(&text(&detail, "kubectl patch", Output::Json)).unwrap();
        let patch = json!([{"op": "test", "path": "/spec/replicas", "value": 3},
                           {"op": "replace", "path": "/spec/replicas", "value": 1}]);
        assert_eq!(json, json!({"command": "kubectl patch", "patch": patch}));
    }

    #[test]
    fn only_an_update_that_is_known_has_a_command() {
        assert_eq!(answer(&detail(Kind::Updated, Some("kubectl patch"))), Ok("kubectl patch".to_owned()));
        assert!(answer(&detail(Kind::Updated, None)).unwrap_err().contains("masked"));
        let created = answer(&detail(Kind::Created, None)).unwrap_err();
        assert!(created.ends_with("kubectl delete deployments.apps/web -n shop"), "{created}");
        let deleted = answer(&detail(Kind::Deleted, None)).unwrap_err();
        assert!(deleted.contains("kubediff at deployments.apps/web -n shop 20"), "{deleted}");
    }
}
