//! What the commands around sinks say: `kubediff test-sink` and `kubediff dead-letters`.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Answer, PATIENCE, Receiver, Slack, poll, slack},
};

async fn kubediff(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    command.args(args).env_remove("KUBEDIFF_CONFIG").stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Exit code and words of `kubediff test-sink it` with this sink.
async fn test_sink(sink: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("kubediff.toml");
    std::fs::write(&config, format!("[sinks.it]\n{sink}")).unwrap();
    let output = kubediff(&["test-sink", "it", "--config", config.to_str().unwrap()]).await;
    (output.status.code(), said(&output))
}

#[tokio::test]
async fn test_sink_prints_what_a_webhook_answered_and_nothing_secret_of_it() {
    let receiver = Receiver::start();
    let hook = |more: &str| {
        format!(
            "type = \"webhook\"\nurl = \"{}\"\nbearer_token = \"hunter2hunter2\"\n{more}",
            receiver.url("/very-secret")
        )
    };
    receiver.answer(Answer::json(202, &json!({"queued": 1, "by": "hunter2hunter2", "at": "/very-secret"})));
    let (code, said) = test_sink(&hook("")).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("delivered") && said.contains("202 Accepted") && said.contains("\"queued\":1"), "{said}");
    assert!(!said.contains("hunter2") && !said.contains("very-secret"), "{said}");
    assert_eq!(receiver.received()[0].json()["resource"]["name"], "web");

    receiver.answer(Answer::status(422).with_body("no such field"));
    let (code, said) = test_sink(&hook("")).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("does not take it") && said.contains("422") && said.contains("no such field"), "{said}");
    receiver.answer(Answer::too_many_requests(7));
    let (code, said) = test_sink(&hook("")).await;
    assert!(code == Some(1) && said.contains("asks to wait 7 s"), "{said}");
    receiver.answer(Answer::Hang);
    let (code, said) = test_sink(&hook("timeout_secs = 1\n")).await;
    assert!(code == Some(1) && said.contains("no answer within 1 s"), "{said}");
}

#[tokio::test]
async fn test_sink_prints_where_a_slack_message_stands() {
    let slack = Slack::start_with_pace(std::time::Duration::ZERO);
    let bot = |token: &str| {
        format!("type = \"slack\"\ntoken = \"{token}\"\nchannel = \"#ops\"\napi_url = \"{}\"\n", slack.api_url())
    };
    let (code, said) = test_sink(&bot(slack::TOKEN)).await;
    let message = slack.messages().remove(0);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("channel {}, ts {}", message.channel, message.ts)), "{said}");
    let (code, said) = test_sink(&bot("xoxb-of-somebody-else")).await;
    assert!(code == Some(1) && said.contains("invalid_auth") && !said.contains("somebody"), "{said}");
    let (code, said) = test_sink(&format!("type = \"slack\"\nwebhook_url = \"{}\"\n", slack.webhook_url())).await;
    assert!(code == Some(0) && said.contains("delivered; the answer: ok"), "{said}");
    assert!(!said.contains("/services/"), "{said}");
}

#[tokio::test]
async fn dead_letters_are_listed_with_their_reason_and_sent_again() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("letters").await;
    let receiver = Receiver::start();
    receiver.answer(Answer::status(422).with_body("not like this"));
    let mut daemon = Kubediff::new(
        cluster.kubeconfig(),
        &format!(
            "[watch]\nnamespaces = [\"{}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
             [sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n",
            ns.name(),
            receiver.url("/hook")
        ),
    );
    daemon.start().await;
    let state = daemon.state();
    let state = state.to_str().unwrap();
    let none = said(&kubediff(&["dead-letters", "list", "--state", state]).await);
    assert!(none.contains("there are none"), "{none}");
    for name in ["first", "second"] {
        cluster.kubectl(&["create", "configmap", name, "-n", ns.name()]).await;
    }
    let list = async || -> Vec<Value> {
        let output = kubediff(&["dead-letters", "list", "--state", state, "-o", "json"]).await;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let letters =
        poll(PATIENCE, "both are dead letters", async || Some(list().await).filter(|all| all.len() == 2)).await;
    assert!(letters.iter().all(|letter| letter["sink"] == "hook"), "{letters:?}");
    let table = said(&kubediff(&["dead-letters", "list", "--state", state]).await);
    for part in ["422", "not like this", &format!("{}/first", ns.name()), "  1 attempt\n"] {
        assert!(table.contains(part), "{part} in {table}");
    }

    let unknown = kubediff(&["dead-letters", "retry", "999999", "--state", state]).await;
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(said(&unknown).contains("there is no such dead letter"), "{}", said(&unknown));
    receiver.forget();
    receiver.answer(Answer::ok());
    let id = letters[0]["id"].to_string();
    let again = kubediff(&["dead-letters", "retry", &id, "--state", state]).await;
    assert!(said(&again).contains("1 dead letter will be sent again"), "{}", said(&again));
    poll(PATIENCE, "one is left", async || (list().await.len() == 1).then_some(())).await;
    let again = kubediff(&["dead-letters", "retry", "--all", "--state", state]).await;
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    poll(PATIENCE, "none is left", async || list().await.is_empty().then_some(())).await;
    receiver.wait_for_accepted(2, PATIENCE).await;
    let mut names: Vec<String> =
        receiver.accepted().iter().map(|one| one.json()["resource"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["first", "second"]);
    daemon.stop().await;
}
