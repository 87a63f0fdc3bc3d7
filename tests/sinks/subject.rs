//! The sinks that the suite is run on, each with the other side that it talks to.

use std::{
    io::{BufRead, BufReader},
    sync::{Arc, Mutex},
    time::Duration,
};

use kubediff::{
    event::Redacted,
    sink::{self, Built, Retry, Secret, Settings, Target, slack, stdout, webhook},
};

use super::told::{self, Wish};
use crate::harness::{Answer, Received, Receiver, Slack, slack as fake};

/// A sink and its other side.
pub struct Subject {
    pub name: &'static str,
    target: Target,
    far: Far,
}

enum Far {
    Http(Receiver),
    Slack(Slack),
    /// What was written to the pipe, and its end.
    Pipe(Arc<Mutex<Vec<String>>>, std::io::PipeWriter),
}

pub fn quick() -> Retry {
    Retry {
        timeout: Duration::from_millis(1500),
        min: Duration::from_millis(20),
        max: Duration::from_millis(200),
        budget: Duration::from_secs(600),
    }
}

/// A change of an object, told apart by a word that is in every rendering.
pub fn event(object: usize, version: usize) -> Arc<Redacted> {
    let image = word(object, version);
    let (from, to) = (Wish { image: "nginx:1.25", replicas: 3 }, Wish { image: &image, replicas: 3 });
    told::updated(&format!("web-{object}"), version, "kubectl-edit", from, to)
}

pub fn word(object: usize, version: usize) -> String {
    format!("change-{object}-{version}.")
}

impl Subject {
    pub fn webhook(name: &'static str, format: webhook::Format, batch: usize) -> Self {
        let receiver = Receiver::start();
        let url = Secret::new(receiver.url("/hook/very-secret"));
        let settings = webhook::Settings { url, format, batch: Some(batch), ..webhook::Settings::default() };
        Self { name, target: Target::Webhook(Box::new(settings)), far: Far::Http(receiver) }
    }

    pub fn slack_bot() -> Self {
        let far = Slack::start();
        let (token, api_url) = (Secret::new(fake::TOKEN), far.api_url());
        let access = slack::Access::Bot { token, channel: "#ops".into(), api_url };
        Self::slack("slack, bot token", access, far)
    }

    pub fn slack_webhook() -> Self {
        let far = Slack::start();
        let access = slack::Access::Webhook { url: Secret::new(far.webhook_url()) };
        Self::slack("slack, incoming webhook", access, far)
    }

    fn slack(name: &'static str, access: slack::Access, far: Slack) -> Self {
        let mut settings = slack::Settings::new(access);
        settings.group_wait = Duration::from_millis(50);
        Self { name, target: Target::Slack(Box::new(settings)), far: Far::Slack(far) }
    }

    pub fn stdout() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Self { name: "stdout", target: Target::Stdout(stdout::Settings::default()), far: Far::Pipe(lines, writer) }
    }

    /// Every sink.
    pub fn all() -> Vec<Self> {
        let mut all = Self::over_http();
        all.push(Self::stdout());
        all
    }

    /// Those whose other side can misbehave.
    pub fn over_http() -> Vec<Self> {
        vec![
            Self::webhook("webhook", webhook::Format::Json, 1),
            Self::webhook("webhook, batches of CloudEvents", webhook::Format::CloudEvents, 5),
            Self::webhook(
                "webhook, template",
                webhook::Format::Template(webhook::ready("mattermost").expect("a ready template")),
                1,
            ),
            Self::webhook("webhook, the old payload", webhook::Format::Legacy, 1),
            Self::slack_bot(),
            Self::slack_webhook(),
        ]
    }

    pub fn settings(&self) -> Settings {
        Settings { name: "subject".into(), target: self.target.clone(), retry: quick() }
    }

    pub fn build(&self) -> Built {
        match (&self.far, &self.target) {
            (Far::Pipe(_, writer), Target::Stdout(settings)) => {
                Built::Sink(Arc::new(stdout::Stdout::to(*settings, writer.try_clone().unwrap()).unwrap()))
            }
            _ => sink::build(&self.settings()).unwrap(),
        }
    }

    pub fn is_chat(&self) -> bool {
        matches!(self.far, Far::Slack(_))
    }

    /// Whether every change is told, and not only counted.
    pub fn has_thread(&self) -> bool {
        !matches!(&self.target, Target::Slack(slack) if matches!(slack.access, slack::Access::Webhook { .. }))
    }

    /// The part of its address that nobody else may know.
    pub fn secret(&self) -> &'static str {
        match &self.target {
            Target::Slack(_) if self.has_thread() => fake::TOKEN,
            Target::Slack(_) => fake::WEBHOOK_PATH,
            _ => "/hook/very-secret",
        }
    }

    pub fn receiver(&self) -> Option<&Receiver> {
        match &self.far {
            Far::Http(receiver) => Some(receiver),
            Far::Slack(slack) => Some(slack.receiver()),
            Far::Pipe(..) => None,
        }
    }

    pub fn slack_far(&self) -> Option<&Slack> {
        match &self.far {
            Far::Slack(slack) => Some(slack),
            _ => None,
        }
    }

    /// What the next requests are answered.
    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        if let Some(receiver) = self.receiver() {
            receiver.then(answers);
        }
    }

    /// Everything that the other side has taken, as text, in order.
    pub fn taken(&self) -> Vec<String> {
        match &self.far {
            Far::Http(receiver) => {
                // A 200 is a 200, whatever became of its body.
                let took = |request: &&Received| request.accepted() || matches!(request.answer, Answer::CutInBody);
                let body = |request: &Received| String::from_utf8_lossy(&request.body).into_owned();
                receiver.received().iter().filter(took).map(body).collect()
            }
            Far::Slack(slack) => {
                let whole = |message: &fake::Message| format!("{} {}", message.text, serde_json::json!(message.blocks));
                let cut = slack.receiver().received().into_iter().filter(|r| matches!(r.answer, Answer::CutInBody));
                let cut = cut.map(|request| String::from_utf8_lossy(&request.body).into_owned());
                slack.messages().iter().map(whole).chain(cut).collect()
            }
            Far::Pipe(lines, _) => lines.lock().unwrap().clone(),
        }
    }

    /// Whether this change has arrived.
    pub fn has(&self, object: usize, version: usize) -> bool {
        let word = word(object, version);
        self.taken().iter().any(|text| text.contains(&word))
    }

    /// The versions of an object in the order in which they first arrived.
    pub fn order(&self, object: usize) -> Vec<usize> {
        let mut versions = Vec::new();
        let start = format!("change-{object}-");
        for text in self.taken() {
            for part in text.split(&start).skip(1) {
                let version: usize = part.split('.').next().unwrap().parse().unwrap();
                if !versions.contains(&version) {
                    versions.push(version);
                }
            }
        }
        versions
    }
}
