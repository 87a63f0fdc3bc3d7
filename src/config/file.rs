//! The configuration as typed: every table with its defaults. Nothing here is checked against anything else; that is
//! `config::check`, and [`super::Plan`] is what the program runs on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    forms,
    keys::{Key, Section, Shape, table},
    secret::Source,
};
use crate::{
    cluster::select::DEFAULT_EXCLUDE,
    redact::{self, noise},
    route::{Route, Silence},
    web,
};

const DAY: u64 = 86_400;

table! {
    /// The whole file.
    File {
        /// The name of the cluster, shown in every event. Empty: the context's name, or the cluster's uid.
        cluster: String = String::new(), Shape::Text;
        /// Whether the annotations kubediff.io/ignore and kubediff.io/sinks on objects and namespaces are heeded.
        annotations: bool = true, Shape::Flag;
        /// The sinks that get what no route takes. Without any route: empty means all of them.
        default_sinks: Vec<String> = Vec::new(), Shape::Sinks;
        /// What is read from the cluster.
        watch: Watch = Watch::default(), Shape::Table(Watch::section);
        /// What is masked, beyond what always is.
        redact: Redact = Redact::default(), Shape::Table(Redact::section);
        /// What is left out of documents, because it changes all the time and tells nobody anything.
        noise: Noise = Noise::default(), Shape::Table(Noise::section);
        /// Where kubediff keeps what it has seen.
        state: State = State::default(), Shape::Table(State::section);
        /// What kubediff serves over HTTP.
        server: Server = Server::default(), Shape::Table(Server::section);
        /// Several replicas, of which one delivers.
        ha: Ha = Ha::default(), Shape::Table(Ha::section);
        /// Where events go, by a name of your choice.
        sinks: BTreeMap<String, Sink> = BTreeMap::new(), Shape::SinkMap;
        /// Who gets which events, in order. None at all: everything to every sink.
        routes: Vec<Route> = Vec::new(), Shape::Tables(route);
        /// What is not told at certain times.
        silences: Vec<Silence> = Vec::new(), Shape::Tables(silence);
    }
}

table! {
    /// `[watch]`
    Watch, rule forms::namespaces_rule {
        /// Namespaces by name or pattern; "all" for every one.
        namespaces: Vec<String> = vec!["all".into()], Shape::List("namespaces' names or patterns", forms::namespace);
        /// Namespaces that are not read.
        exclude_namespaces: Vec<String> = Vec::new(), Shape::List("namespaces' names or patterns", forms::namespace);
        /// Resources that are read: "apps/*", "Deployment", "v1/configmaps", "*.cert-manager.io".
        include: Vec<String> = vec!["*".into()], Shape::List("patterns of resources", forms::resource);
        /// Resources that are not read, whatever include says.
        exclude: Vec<String> = Vec::new(), Shape::List("patterns of resources", forms::resource);
        /// Resources that are not read unless include names them: the noisy kinds.
        default_exclude: Vec<String> = DEFAULT_EXCLUDE.map(String::from).to_vec(),
            Shape::List("patterns of resources", forms::resource);
        /// A label selector for everything, applied by the API server.
        selector: String = String::new(), Shape::Checked("a label selector", forms::selector);
        /// Label and field selectors for some resources, on top.
        selectors: Vec<Selector> = Vec::new(), Shape::Tables(Selector::section);
        /// What is read of Secrets: all with values hashed, their metadata alone, or nothing.
        secrets: redact::Secrets = redact::Secrets::Hash, Shape::Word(|| vec!["hash", "metadata", "off"]);
        /// How often the stored objects are compared with a fresh list; 0 for never.
        audit_interval_secs: u64 = 21_600, Shape::Number(0, 30 * DAY);
        /// Lists that run at the same time, most of all at the start.
        concurrent_lists: u64 = 4, Shape::Number(1, 64);
        /// Objects a page of a list.
        page_size: u64 = 500, Shape::Number(1, 10_000);
        /// The longest that one watch lasts; below 240 behind load balancers that cut quiet connections.
        watch_timeout_secs: u64 = 600, Shape::Number(10, DAY);
    }
}

table! {
    /// `[[watch.selectors]]`
    Selector, rule forms::selectors_rule {
        /// The resources that it is for, as in include.
        resource: String = String::new(), Shape::Checked("a pattern of resources", forms::resource);
        /// A label selector.
        labels: String = String::new(), Shape::Checked("a label selector", forms::selector);
        /// A field selector: status.phase=Running,spec.nodeName!=a.
        fields: String = String::new(), Shape::Checked("a field selector", forms::field_selector);
    }
}

table! {
    /// `[redact]`
    Redact {
        /// Regular expressions: of a field whose name matches, the value is masked; of a text, the part that matches.
        patterns: Vec<String> = Vec::new(), Shape::List("regular expressions", forms::redaction);
        /// Of an object that is larger, only the metadata is kept.
        max_object_bytes: Bytes = Bytes(8 << 20), Shape::Checked("a size such as \"8MiB\"", forms::bytes);
        /// The key of the hashes that stand for secret values, for replicas: each state file begins with one of its own else.
        key: Option<Source> = None, Shape::Secret;
    }
}

table! {
    /// `[noise]`
    Noise {
        /// "quiet" leaves out heartbeats, leader elections and the like, "all" nothing.
        profile: noise::Profile = noise::Profile::Quiet, Shape::Word(|| vec!["quiet", "all"]);
        /// More paths to leave out: "/spec/replicas", "Deployment:/metadata/annotations/example.com~1*".
        ignore: Vec<String> = Vec::new(), Shape::List("paths", forms::noise);
    }
}

table! {
    /// `[state]`
    State {
        /// The file with objects, events and deliveries; "memory" to try out.
        path: String = "kubediff.db".into(), Shape::Checked("a path", forms::not_empty);
        /// How long events are kept.
        retention_days: u64 = 14, Shape::Number(1, 3650);
        /// How large the file may grow; the oldest events go first.
        max_bytes: Bytes = Bytes(2 << 30), Shape::Checked("a size such as \"2GiB\"", forms::bytes);
    }
}

table! {
    /// `[server]`
    Server {
        /// The address of /livez, /readyz and /metrics; "" for none.
        probes: String = "127.0.0.1:9090".into(), Shape::Checked("an address such as 127.0.0.1:9090", forms::address);
        /// The address of the page and the API; "" for none.
        page: String = "127.0.0.1:8080".into(), Shape::Checked("an address such as 127.0.0.1:8080", forms::address);
        /// Who may look: "auto" is everybody on a loopback address and who has a token elsewhere; or "token", "none".
        auth: web::Auth = web::Auth::Auto, Shape::Word(|| vec!["auto", "token", "none"]);
        /// Where readers of messages reach the page, for links in them; "" for no links.
        page_url: String = String::new(), Shape::Checked("a URL", forms::url_or_empty);
    }
}

table! {
    /// `[ha]`
    Ha, rule forms::ha_rule {
        /// Whether this is one of several replicas, each with a state file of its own. A Lease says which one delivers.
        enabled: bool = false, Shape::Flag;
        /// The name of the Lease. Replicas that belong together have the same.
        lease: String = "kubediff".into(), Shape::Checked("a name", forms::not_empty);
        /// Whether the Lease is made where there is none; not where something else owns it, as the chart does.
        create_lease: bool = true, Shape::Flag;
        /// The namespace of the Lease; empty for the pod's own, or the context's.
        namespace: String = String::new(), Shape::Text;
        /// What this replica is called on the Lease; empty for the host's name, which is the pod's.
        identity: String = String::new(), Shape::Text;
        /// How long a leader that is not heard of keeps the Lease.
        lease_secs: u64 = 15, Shape::Number(2, 3600);
        /// How long a leader that cannot renew the Lease goes on delivering; less than lease_secs.
        renew_secs: u64 = 10, Shape::Number(1, 3600);
        /// How often the leader renews the Lease and the others look at it; less than renew_secs.
        retry_secs: u64 = 2, Shape::Number(1, 600);
    }
}

/// `[sinks.NAME]`, by its `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Sink {
    Stdout(Stdout),
    Webhook(Box<Webhook>),
    Slack(Box<Slack>),
}

impl Sink {
    pub const TYPES: [&'static str; 3] = ["stdout", "webhook", "slack"];

    /// The keys of a type, without `type` itself.
    pub fn section(of: &str) -> Option<Section> {
        match of {
            "stdout" => Some(Stdout::section()),
            "webhook" => Some(Webhook::section()),
            "slack" => Some(Slack::section()),
            _ => None,
        }
    }
}

table! {
    /// `type = "stdout"`: one event a line.
    Stdout {
        /// How an event is written.
        format: StdoutFormat = StdoutFormat::Json, Shape::Word(|| vec!["json", "text", "ecs", "legacy"]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StdoutFormat {
    Json,
    Text,
    Ecs,
    Legacy,
}

table! {
    /// `type = "webhook"`: an HTTP request an event, or a batch of them.
    Webhook, rule forms::webhook_rule {
        /// Where requests go. Never shown anywhere.
        url: Option<Source> = None, Shape::Secret;
        /// What a request carries.
        format: WebhookFormat = WebhookFormat::Json, Shape::Word(|| vec!["json", "cloudevents", "legacy", "template"]);
        /// For format = "template": teams, discord, mattermost, pagerduty, google-chat, or a template of your own.
        template: Option<Source> = None, Shape::Secret;
        /// Headers by template, as the body.
        template_headers: BTreeMap<String, String> = BTreeMap::new(), Shape::TextMap;
        /// Values for the template, as vars.NAME: a routing key, for example.
        vars: BTreeMap<String, Source> = BTreeMap::new(), Shape::SecretMap;
        /// Headers of every request.
        headers: BTreeMap<String, Source> = BTreeMap::new(), Shape::SecretMap;
        /// Sent as Authorization: Bearer.
        bearer_token: Option<Source> = None, Shape::Secret;
        /// For basic authentication.
        username: String = String::new(), Shape::Text;
        /// For basic authentication.
        password: Option<Source> = None, Shape::Secret;
        /// Standard Webhooks secrets (whsec_...); several while the receiver changes over.
        signing_secret: OneOrMany = OneOrMany::default(), Shape::Secrets;
        /// Events a request at most; more than one are sent as a list.
        batch: u64 = 1, Shape::Number(1, 1000);
        /// Requests at the same time, each about other objects.
        in_flight: u64 = 8, Shape::Number(1, 256);
        /// Whether requests are compressed.
        gzip: bool = false, Shape::Flag;
        /// PEM certificates that are trusted besides the system's.
        ca: Option<Source> = None, Shape::Secret;
        /// The client's certificate, PEM.
        client_certificate: Option<Source> = None, Shape::Secret;
        /// The client's key, PEM.
        client_key: Option<Source> = None, Shape::Secret;
        /// An HTTP proxy: http://proxy:3128, with a password or not.
        proxy: Option<Source> = None, Shape::Secret;
        /// How long a request may take.
        timeout_secs: u64 = 15, Shape::Number(1, 600);
        /// The first pause after a failed attempt; each one after that is twice as long.
        retry_min_secs: u64 = 1, Shape::Number(1, 3600);
        /// The longest pause between attempts.
        retry_max_secs: u64 = 60, Shape::Number(1, DAY);
        /// After this long without success, an event becomes a dead letter.
        retry_for_secs: u64 = DAY, Shape::Number(1, 365 * DAY);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    Json,
    CloudEvents,
    Legacy,
    Template,
}

table! {
    /// `type = "slack"`: messages that a person wants to read, one per root owner and window.
    Slack, rule forms::slack_rule {
        /// A bot token (xoxb-...), for messages that are edited in place and have threads.
        token: Option<Source> = None, Shape::Secret;
        /// The channel, for a token: "#ops" or its id.
        channel: String = String::new(), Shape::Text;
        /// An incoming webhook, in place of token and channel.
        webhook_url: Option<Source> = None, Shape::Secret;
        /// Another address of Slack's API, for tests and proxies.
        api_url: String = "https://slack.com/api/".into(), Shape::Checked("a URL", forms::url);
        /// How long a message waits for more changes of the same root owner.
        group_wait_secs: u64 = 10, Shape::Number(0, 3600);
        /// How long changes of the same root owner go into the same message.
        group_max_secs: u64 = 300, Shape::Number(1, DAY);
        /// PEM certificates that are trusted besides the system's.
        ca: Option<Source> = None, Shape::Secret;
        /// An HTTP proxy: http://proxy:3128, with a password or not.
        proxy: Option<Source> = None, Shape::Secret;
        /// How long a request may take.
        timeout_secs: u64 = 15, Shape::Number(1, 600);
        /// The first pause after a failed attempt; each one after that is twice as long.
        retry_min_secs: u64 = 1, Shape::Number(1, 3600);
        /// The longest pause between attempts.
        retry_max_secs: u64 = 60, Shape::Number(1, DAY);
        /// After this long without success, an event becomes a dead letter.
        retry_for_secs: u64 = DAY, Shape::Number(1, 365 * DAY);
    }
}

/// One secret or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(Source),
    Many(Vec<Source>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    pub(super) fn as_slice(&self) -> &[Source] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// A size in bytes: a number, or a text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let unit = units.iter().find(|(_, bits)| self.0 > 0 && self.0.is_multiple_of(1 << bits));
        match unit {
            Some((unit, bits)) => serializer.serialize_str(&format!("{}{unit}", self.0 >> bits)),
            None => serializer.serialize_str(&self.0.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => forms::parse_bytes(&text).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// `[[routes]]`. The type is [`Route`]; a test compares the two.
pub fn route() -> Section {
    const KEYS: &[Key] = &[
        Key::new("name", Shape::Text, "A name, for explanations and metrics."),
        Key::new("match", Shape::Table(matching), "What it takes; everything without it."),
        Key::new("sinks", Shape::Sinks, "Who gets it. In a route within another: left out for the outer one's."),
        Key::new(
            "drop",
            Shape::Checked("a reason", forms::label),
            "Nobody gets it, for this reason, which is counted.",
        ),
        Key::new("continue", Shape::Flag, "Whether the routes after it are asked too."),
        Key::new("routes", Shape::Tables(route), "Routes for what this one takes; it keeps what they leave."),
    ];
    Section { keys: KEYS, rule: Some(forms::route_rule) }
}

/// `[[silences]]`. The type is [`Silence`]; a test compares the two.
pub fn silence() -> Section {
    const KEYS: &[Key] = &[
        Key::new("name", Shape::Text, "A name, for explanations and metrics."),
        Key::new("match", Shape::Table(matching), "What is silenced; everything without it."),
        Key::new("sinks", Shape::Sinks, "The sinks that are silent; all without it."),
        Key::new("reason", Shape::Checked("a reason", forms::not_empty), "Why."),
        Key::new("by", Shape::Text, "Who asked for it."),
        Key::new("from", Shape::Checked("a time such as 2026-01-31T22:00:00Z", forms::time), "When it begins."),
        Key::new("until", Shape::Checked("a time such as 2026-01-31T22:00:00Z", forms::time), "When it ends."),
        Key::new("hours", Shape::List("spans such as 22:00-06:00", forms::hours), "Times of the day."),
        Key::new("weekdays", Shape::List("days such as sat or mon-fri", forms::weekday), "Days of the week."),
        Key::new("time_zone", Shape::Checked("a time zone", forms::zone), "For hours and weekdays; UTC without it."),
    ];
    Section { keys: KEYS, rule: Some(forms::silence_rule) }
}

/// `match = { … }`. The type is [`crate::route::Match`]; a test compares the two.
pub fn matching() -> Section {
    const KEYS: &[Key] = &[
        Key::new("types", Shape::Words(|| vec!["created", "updated", "deleted"]), "What happened to the object."),
        Key::new("kinds", Shape::List("patterns", forms::word), "Kinds or resources: Deployment, configmaps, *Policy."),
        Key::new("groups", Shape::List("patterns", forms::name), "API groups; \"core\" for the one without a name."),
        Key::new("namespaces", Shape::List("patterns", forms::name), "Namespaces; ! in front for all but those."),
        Key::new("names", Shape::List("patterns", forms::name), "Names of objects."),
        Key::new("labels", Shape::Checked("a label selector", forms::selector), "Labels of the object."),
        Key::new("namespace_labels", Shape::Checked("a label selector", forms::selector), "Labels of its namespace."),
        Key::new("classes", Shape::Words(forms::classes), "What sort of change; one of them is enough."),
        Key::new(
            "paths",
            Shape::List("paths", forms::path),
            "Changed fields: \"spec.**.image\" or \"/spec/replicas\".",
        ),
        Key::new("managers", Shape::List("patterns", forms::name), "Field managers that took part."),
        Key::new("not_managers", Shape::List("patterns", forms::name), "Someone else than these took part."),
        Key::new("by_hand", Shape::Flag, "Whether a person's own program (kubectl, k9s, ...) took part."),
        Key::new("owner", Shape::List("Kind/name", forms::owner), "The root owner: \"Deployment/web-*\"."),
        Key::new("observed", Shape::Words(|| vec!["live", "late", "audit"]), "How kubediff came to know of it."),
        Key::new("hours", Shape::List("spans such as 22:00-06:00", forms::hours), "Times of the day."),
        Key::new("weekdays", Shape::List("days such as sat or mon-fri", forms::weekday), "Days of the week."),
        Key::new("time_zone", Shape::Checked("a time zone", forms::zone), "For hours and weekdays; UTC without it."),
        Key::new("when", Shape::Checked("a CEL expression", forms::when), "A CEL expression over the event."),
    ];
    Section { keys: KEYS, rule: None }
}
