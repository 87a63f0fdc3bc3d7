//! A chat and a daemon that dies between telling something and writing down that it did.

use super::Kubediff;
use crate::harness::{self, PATIENCE, Slack, poll, slack};

#[tokio::test]
async fn dying_around_a_slack_message_loses_none_and_tells_at_most_one_twice() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("chat").await;
    let slack = Slack::start_with_pace(std::time::Duration::ZERO);
    let mut kubediff = Kubediff::new(
        cluster.kubeconfig(),
        &format!(
            "[watch]\nnamespaces = [\"{}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
             [sinks.ops]\ntype = \"slack\"\ntoken = \"{}\"\nchannel = \"#ops\"\napi_url = \"{}\"\ngroup_wait_secs = 1\n\
             group_max_secs = 3600\n",
            ns.name(),
            slack::TOKEN,
            slack.api_url()
        ),
    );
    kubediff.start().await;
    kubediff.stop().await;
    let about = |name: &str| -> Vec<slack::Message> {
        let title = format!("ConfigMap {}/{name},", ns.name());
        slack.messages().into_iter().filter(|m| m.thread_ts.is_none() && m.text.contains(&title)).collect()
    };
    for point in kubediff::failpoint::ALL {
        kubediff.spawn_with(&format!("KUBEDIFF_FAILPOINT={point}:1"));
        cluster.kubectl(&["create", "configmap", point, "-n", ns.name()]).await;
        poll(PATIENCE, format!("it dies {point}"), async || kubediff.died().then_some(())).await;
        kubediff.start().await;
        poll(PATIENCE, format!("{point} is told"), async || (!about(point).is_empty()).then_some(())).await;
        poll(PATIENCE, format!("{point} is off the list"), async || (kubediff.waiting() == 0).then_some(())).await;
        kubediff.stop().await;
        let told = about(point);
        // Posted, and not yet written down: nobody can know better than to post it again.
        let expected = if *point == "before-ack" { 2 } else { 1 };
        assert_eq!(told.len(), expected, "{point}: {told:#?}");
    }

    // A message that stands is edited, however often: there is never a second one.
    let name = "after-ack";
    let ts = about(name)[0].ts.clone();
    kubediff.spawn_with("KUBEDIFF_FAILPOINT=before-ack:1");
    cluster.kubectl(&["label", "configmap", name, "touched=yes", "-n", ns.name()]).await;
    poll(PATIENCE, "it dies after the edit", async || kubediff.died().then_some(())).await;
    kubediff.start().await;
    poll(PATIENCE, "the edit is off the list", async || {
        (kubediff.waiting() == 0 && about(name)[0].edits >= 2).then_some(())
    })
    .await;
    let told = about(name);
    assert_eq!((told.len(), told[0].ts.as_str()), (1, ts.as_str()), "{told:#?}");
    kubediff.stop().await;
}
