//! The faults: does to the server, the wire, kubediff and the receiver what the schedule says, and heals all of it.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    schedule::{At, Daemon, Hook, Schedule, Server, Shape, Wire},
    subject::Subject,
    timeline::Timeline,
    work::GROUP,
};
use crate::harness::{Access, After, Answer, Cluster, Fault, Matching, PATIENCE, Proxy, Receiver, Then, poll};

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Does each at its moment, or when the one before it is over; none that would begin after the end. Says of each how
/// often it struck.
async fn lane<T: Debug>(
    timeline: &Timeline,
    schedule: &Schedule,
    name: &str,
    lane: &[At<T>],
    mut perform: impl AsyncFnMut(&T) -> u64,
) {
    let end = timeline.began() + schedule.length;
    for At { ms, what } in lane {
        timeline.until(*ms).await;
        if Instant::now() > end {
            break;
        }
        timeline.note(format_args!("{name}: {what:?}"));
        let struck = perform(what).await;
        let text = format!("{what:?}");
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let of = name.split(' ').next().unwrap_or_default();
        timeline.struck(format!("{of}: {word}"), struck);
    }
}

/// Rights of the kubediff under test.
pub struct Rights {
    access: Access,
}

const ROLE: &str = "chaos-kubediff";
const READ: [&str; 3] = ["get", "list", "watch"];
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubediff";

impl Rights {
    /// A service account that may read everything, and its token.
    pub async fn grant(access: &Access) -> (Self, String) {
        let rights = Self { access: access.clone() };
        let account = json!({"metadata": {"name": ROLE}});
        rights.send(Method::POST, "/api/v1/namespaces/kube-system/serviceaccounts", &account).await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": ROLE}, "rules": rules(None)});
        rights.send(Method::POST, &format!("{rbac}/clusterroles"), &role).await;
        let binding = json!({"metadata": {"name": ROLE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": ROLE}]});
        rights.send(Method::POST, &format!("{rbac}/clusterrolebindings"), &binding).await;
        let path = format!("/api/v1/namespaces/kube-system/serviceaccounts/{ROLE}/token");
        let said = rights.send(Method::POST, &path, &json!({"spec": {"expirationSeconds": 86_400}})).await;
        let token = said["status"]["token"].as_str().expect("a token").to_owned();
        (rights, token)
    }

    async fn set(&self, rules: &Value) {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{ROLE}");
        let role = json!({"metadata": {"name": ROLE}, "rules": rules});
        self.send(Method::PUT, &path, &role).await;
    }

    /// Until the server takes it.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        poll(PATIENCE, format!("{method} {path}"), async || {
            let request = self.access.request(method.clone(), path).timeout(Duration::from_secs(5)).json(body);
            let answer = request.send().await.ok()?;
            if !answer.status().is_success() && answer.status() != 409 {
                return None;
            }
            answer.json().await.ok()
        })
        .await
    }
}

/// The right to read all, or all but one of the resources that the faults name; and to lead.
fn rules(but: Option<&str>) -> Value {
    let lead =
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]});
    match but {
        None => json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": READ}, lead]),
        Some(but) => {
            let left = |all: &[&str]| all.iter().filter(|name| **name != but).map(|name| (*name).to_owned()).collect();
            let core: Vec<String> =
                left(&["namespaces", "configmaps", "secrets", "pods", "services", "serviceaccounts"]);
            let ours: Vec<String> = left(&["widgets", "gadgets"]);
            json!([
                {"apiGroups": [""], "resources": core, "verbs": READ},
                {"apiGroups": ["apps", "apiextensions.k8s.io", "apiregistration.k8s.io"], "resources": ["*"], "verbs": READ},
                {"apiGroups": [GROUP], "resources": ours, "verbs": READ},
                lead,
            ])
        }
    }
}

/// What is done to the API server. It is up, with all rights given, when this returns.
pub async fn server(
    schedule: &Schedule,
    timeline: &Timeline,
    cluster: &mut Cluster,
    rights: &Rights,
    proxies: &[Proxy],
) {
    let cut = |matching: &Matching| proxies.iter().for_each(|proxy| proxy.cut(matching));
    lane(timeline, schedule, "server", &schedule.server, async |fault| match fault {
        Server::Kill { down_ms } => {
            cluster.kill();
            tokio::time::sleep(millis(*down_ms)).await;
            cluster.restart().await;
            timeline.note("server: it is back");
            1
        }
        Server::Pause { ms } => {
            cluster.pause();
            tokio::time::sleep(millis(*ms)).await;
            cluster.resume();
            1
        }
        Server::Compact => {
            cluster.compact().await;
            timeline.note("server: compacted");
            // Without a watch cache the open watches go on; those that begin anew feel it.
            cut(&Matching::all());
            1
        }
        Server::Forbid { what, ms } => {
            rights.set(&what.map_or_else(|| json!([]), |what| rules(Some(what)))).await;
            // A watch that is open stays; the next one asks anew.
            cut(&Matching::watches(what.unwrap_or_default()));
            tokio::time::sleep(millis(*ms)).await;
            rights.set(&rules(None)).await;
            1
        }
        Server::DeleteLease => {
            let request = cluster.access().request(Method::DELETE, LEASE).timeout(Duration::from_secs(5)).send();
            u64::from(request.await.is_ok_and(|answer| answer.status().is_success()))
        }
    })
    .await;
}

/// What is done on the wire of one replica. All flows again when this returns. What rules strike is counted by the proxy.
pub async fn wire(schedule: &Schedule, timeline: &Timeline, replica: usize, proxy: &Proxy) {
    let faults = &schedule.wire[replica];
    lane(timeline, schedule, &format!("wire {replica}"), faults, async |fault| {
        let stream = |what: &str, after: usize, then: Then| {
            let fault = Fault::Stream(After::Events(after), then);
            proxy.fault_next(1, Matching::watches(what), fault);
            proxy.cut(&Matching::watches(what));
        };
        match fault {
            Wire::Cut(what) => proxy.cut(&Matching::watches(what)),
            Wire::Stall { what, ms } => {
                proxy.stall(&Matching::watches(what));
                tokio::time::sleep(millis(*ms)).await;
                proxy.resume(&Matching::watches(what));
            }
            Wire::Tear { what, after } => stream(what, *after, Then::Tear),
            Wire::End { what, after } => stream(what, *after, Then::End),
            Wire::ErrorEvent { what, after, code } => {
                proxy.fault_next(1, Matching::watches(what), Fault::error_event(*after, *code));
                proxy.cut(&Matching::watches(what));
            }
            Wire::Answer { what, lists, times, code } => {
                let matching = if *lists { Matching::lists(what) } else { Matching::watches(what) };
                let fault = if *code == 429 { Fault::too_many_requests(1) } else { Fault::answer(*code) };
                proxy.fault_next(*times, matching, fault);
                proxy.cut(&Matching::watches(what));
            }
            Wire::Hang { what, times } => {
                proxy.fault_next(*times, Matching::watches(what), Fault::Hang);
                proxy.cut(&Matching::watches(what));
            }
            Wire::CutList { bytes } => {
                // An expired version makes it list, and the list is cut.
                proxy.fault_next(1, Matching::lists(""), Fault::Stream(After::Bytes(*bytes), Then::Cut));
                proxy.fault_next(1, Matching::watches(""), Fault::error_event(0, 410));
                proxy.cut(&Matching::watches(""));
            }
            Wire::Refuse { ms } => {
                proxy.refuse(true);
                tokio::time::sleep(millis(*ms)).await;
                proxy.refuse(false);
            }
            Wire::Partition { ms } => {
                proxy.fault(Matching::all(), Fault::Hang);
                proxy.stall(&Matching::all());
                tokio::time::sleep(millis(*ms)).await;
                proxy.heal();
                // What hung is never answered; its connection has to go for the other end to notice.
                proxy.refuse(true);
                proxy.refuse(false);
            }
        }
        u64::from(matches!(fault, Wire::Refuse { .. } | Wire::Partition { .. }))
    })
    .await;
    proxy.heal();
}

/// What is done to one kubediff. It runs with its usual configuration when this returns. Says what should not have
/// happened.
pub async fn daemon(
    schedule: &Schedule,
    timeline: &Timeline,
    replica: usize,
    subject: &mut Subject,
    config: &Config,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let faults = &schedule.daemon[replica];
    lane(timeline, schedule, &format!("kubediff {replica}"), faults, async |fault| {
        if let Some(ended) = subject.died() {
            timeline.note(format_args!("kubediff {replica}: ended by itself: {ended}"));
            wrong.push(format!("kubediff ended by itself: {ended}"));
            subject.spawn(None);
        }
        match fault {
            Daemon::Kill { down_ms } => {
                subject.kill();
                tokio::time::sleep(millis(*down_ms)).await;
                subject.spawn(None);
                1
            }
            Daemon::Failpoint { name, times } => {
                subject.kill();
                subject.spawn(Some(format!("{name}:{times}")));
                let until = Instant::now() + Duration::from_secs(5);
                let mut died = false;
                while !died && Instant::now() < until {
                    died = subject.died().is_some();
                    tokio::time::sleep(millis(20)).await;
                }
                subject.kill();
                subject.spawn(None);
                u64::from(died)
            }
            Daemon::Stop { down_ms } => {
                if let Err(why) = subject.stop().await {
                    timeline.note(format_args!("kubediff {replica}: {why}"));
                    wrong.push(why);
                }
                tokio::time::sleep(millis(*down_ms)).await;
                subject.spawn(None);
                1
            }
            Daemon::Suspend { ms } => {
                subject.suspend(true);
                tokio::time::sleep(millis(*ms)).await;
                subject.suspend(false);
                1
            }
            Daemon::DiskFull { ms } => {
                let before = subject.said(FULL);
                subject.fill_disk(true).await;
                tokio::time::sleep(millis(*ms)).await;
                subject.fill_disk(false).await;
                // One that had not opened its file yet says so and ends; what runs it starts it again.
                if let Some(ended) = subject.died() {
                    timeline.note(format_args!("kubediff {replica}: began without room: {ended}"));
                    if !ended.contains("cannot open kubediff.db") {
                        wrong.push(format!("the full disk ended it: {ended}"));
                    }
                    subject.spawn(None);
                    return 1;
                }
                subject.said(FULL) - before
            }
            Daemon::Reload { batch, in_flight, extra } => {
                let before = subject.said(RELOADED);
                subject.write_config(&config.text(replica, *batch, *in_flight, *extra));
                u64::from(subject.until_said(RELOADED, before).await)
            }
            Daemon::WrongConfig { ms } => {
                let before = subject.said(WRONG);
                subject.write_config("[wtach]\nnamespaces = 5\n");
                tokio::time::sleep(millis(*ms)).await;
                subject.write_config(&config.usual(replica));
                // One that was only starting says what is wrong and ends; what runs it starts it again.
                if let Some(ended) = subject.died() {
                    timeline.note(format_args!("kubediff {replica}: began with it: {ended}"));
                    if !ended.contains("wtach: there is no such key") {
                        wrong.push(format!("the wrong configuration ended it: {ended}"));
                    }
                    subject.spawn(None);
                    return 1;
                }
                subject.said(WRONG) - before
            }
            Daemon::Clock { off_secs } => {
                subject.set_clock(*off_secs);
                1
            }
        }
    })
    .await;
    subject.write_config(&config.usual(replica));
    wrong
}

/// What the log says of each.
const FULL: &str = "cannot write the state file";
const RELOADED: &str = "the new configuration is in force";
const WRONG: &str = "the new configuration is wrong and the one before goes on";

/// What the receiver does. It takes everything when this returns.
pub async fn receiver(schedule: &Schedule, timeline: &Timeline, receiver: &Receiver) {
    lane(timeline, schedule, "receiver", &schedule.receiver, async |fault| {
        let ms = match fault {
            Hook::Mixed { ms, seed } => {
                let mix = vec![
                    (8, Answer::ok()),
                    (2, Answer::status(500)),
                    (1, Answer::too_many_requests(1)),
                    (1, Answer::Hang),
                    (1, Answer::Cut),
                    (1, Answer::CutInBody),
                ];
                receiver.random(*seed, mix);
                ms
            }
            Hook::Failing { ms } => {
                receiver.answer(Answer::status(503));
                ms
            }
            Hook::Hanging { ms } => {
                receiver.answer(Answer::Hang);
                ms
            }
            Hook::Limiting { ms } => {
                receiver.answer(Answer::too_many_requests(1));
                ms
            }
            Hook::Refusing { ms } => {
                receiver.refuse(true);
                ms
            }
        };
        let before = receiver.received().len();
        tokio::time::sleep(millis(*ms)).await;
        let struck = receiver.received()[before..].iter().filter(|request| !request.accepted()).count() as u64;
        receiver.refuse(false);
        receiver.answer(Answer::ok());
        // Whom it refused it cannot know; a mix may be kind by chance.
        if matches!(fault, Hook::Refusing { .. }) { 1 } else { struck }
    })
    .await;
    receiver.refuse(false);
    receiver.answer(Answer::ok());
}

/// The configuration of a run, and how a reload changes it.
pub struct Config {
    pub shape: Shape,
    /// Of each replica.
    pub probes: Vec<u16>,
    pub hook: String,
    /// A second sink, which comes and goes.
    pub extra: String,
}

/// How often what is stored is compared with a list: nothing may be found missing.
const AUDIT_SECS: u64 = 10;

impl Config {
    pub fn usual(&self, replica: usize) -> String {
        self.text(replica, self.shape.batch, self.shape.in_flight, false)
    }

    fn text(&self, replica: usize, batch: u32, in_flight: u32, extra: bool) -> String {
        let namespaces = if self.shape.by_namespace { "chaos-*" } else { "all" };
        let include = if self.shape.everything {
            "\"*\"".to_owned()
        } else {
            format!(
                "\"v1/namespaces\", \"v1/configmaps\", \"v1/secrets\", \"v1/pods\", \"v1/serviceaccounts\", \"apps/*\", \
                 \"apiextensions.k8s.io/*\", \"{GROUP}/*\""
            )
        };
        let mut text = format!(
            "cluster = \"chaos\"\n[watch]\nnamespaces = [\"{namespaces}\"]\ninclude = [{include}]\n\
             audit_interval_secs = {AUDIT_SECS}\n[redact]\nkey = \"chaos has the same key on all replicas\"\n[server]\n\
             probes = \"127.0.0.1:{}\"\npage = \"\"\n[sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\nbatch = {batch}\n\
             in_flight = {in_flight}\ntimeout_secs = 2\nretry_max_secs = 2\n",
            self.probes[replica], self.hook
        );
        if self.shape.replicas > 1 {
            text.push_str(&format!(
                "[ha]\nenabled = true\nnamespace = \"kube-system\"\nidentity = \"replica-{replica}\"\nlease_secs = 6\n\
                 renew_secs = 4\nretry_secs = 1\n"
            ));
        }
        if extra {
            text.push_str(&format!("[sinks.extra]\ntype = \"webhook\"\nurl = \"{}\"\n", self.extra));
        }
        text
    }
}
