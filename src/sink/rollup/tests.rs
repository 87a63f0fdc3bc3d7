use super::*;
use crate::{event::OwnerRef, sink::sample};

fn pod(name: &str, kind: Kind, second: i64) -> Event {
    let mut event = sample::event();
    event.kind = kind;
    event.id = format!("{name}-{}", kind.as_str());
    event.resource.kind = "Pod".into();
    event.resource.resource = "pods".into();
    event.resource.group.clear();
    event.resource.name = name.into();
    event.owner = Some(OwnerRef { kind: "Deployment".into(), namespace: "shop".into(), name: "web".into() });
    event.classes = vec![Class::Lifecycle];
    event.changes.clear();
    event.patch = None;
    event.summary = format!("Pod {name} {}", kind.as_str());
    event.time += std::time::Duration::from_secs(second.unsigned_abs());
    event
}

#[test]
fn a_rollout_of_twenty_pods_is_one_message_with_the_image_on_top() {
    let mut story = Story::default();
    let change = sample::event();
    story.take(&change);
    for n in 0..20 {
        story.take(&pod(&format!("web-new-{n}"), Kind::Created, n));
        story.take(&pod(&format!("web-old-{n}"), Kind::Deleted, n + 1));
    }
    assert_eq!(key(&change), key(&pod("x", Kind::Created, 0)), "the same root owner");
    let card = story.card();
    assert_eq!(card.title, "~ Deployment shop/web, sample, changed by kubectl-edit (by hand)");
    assert!(card.lines[0].contains("nginx:1.25 -> nginx:1.27"), "{card:?}");
    assert_eq!(card.lines[1], "20 pods replaced");
    assert_eq!(card.footer, "41 changes in 20 s");
    assert!(card.diff.contains("- containers[web].image: nginx:1.25\n+ containers[web].image: nginx:1.27"));
}

#[test]
fn a_rollout_says_how_far_it_is_and_when_it_is_done() {
    let mut story = Story::default();
    let mut change = sample::event();
    story.take(&change);
    change.classes = vec![Class::Status];
    change.changes[0].field = "status.replicas".into();
    change.changes[0].to = Some(20.into());
    story.take(&change);
    for n in 0..12 {
        story.take(&pod(&format!("new-{n}"), Kind::Created, n));
        story.take(&pod(&format!("old-{n}"), Kind::Deleted, n));
    }
    assert!(story.card().lines.contains(&"Rolling out: 12 of 20 pods replaced".to_owned()), "{:?}", story.card());
    change.changes[0].field = "status.conditions[Progressing].reason".into();
    change.changes[0].to = Some("NewReplicaSetAvailable".into());
    change.time += std::time::Duration::from_secs(48);
    story.take(&change);
    assert!(story.card().lines.iter().any(|line| line.starts_with("Rolled out in 48 s: 12 pods replaced")));
}

#[test]
fn trouble_of_a_child_is_told_until_it_is_over() {
    let mut story = Story::default();
    story.take(&sample::event());
    let mut crash = pod("web-1", Kind::Updated, 1);
    crash.classes = vec![Class::Status, Class::Health];
    crash.summary = "Pod crash-looping: 4 restarts, last exit 137 (OOMKilled)".into();
    story.take(&crash);
    let trouble = |story: &Story| story.card().lines.iter().any(|line| line.contains("OOMKilled"));
    assert!(trouble(&story));
    story.take(&pod("web-1", Kind::Deleted, 2));
    assert!(!trouble(&story));
}

#[test]
fn a_field_that_goes_back_and_forth_is_one_message_that_says_so() {
    let mut story = Story::default();
    for n in 0..6 {
        let mut event = sample::event();
        event.classes = vec![Class::Spec, Class::Scale];
        event.actors[0].manager = if n % 2 == 0 { "hpa".into() } else { "argocd-controller".into() };
        let (from, to) = if n % 2 == 0 { (3, 5) } else { (5, 3) };
        event.changes[0].field = "spec.replicas".into();
        event.changes[0].from = Some(from.into());
        event.changes[0].to = Some(to.into());
        story.take(&event);
        assert_eq!(story.card().title.contains("flapping"), n >= 2, "after {} changes", n + 1);
    }
    let said =
        "Flapping: replicas went back and forth 6 times between 3 and 5: argocd-controller and hpa undo each other";
    assert!(story.card().lines.contains(&said.to_owned()), "{:?}", story.card().lines);
}

#[test]
fn trouble_of_the_owner_itself_is_told_until_it_is_over() {
    let mut story = Story::default();
    story.take(&sample::event());
    let said = |summary: &str, condition: &str| {
        let mut event = sample::event();
        event.classes = vec![Class::Status, Class::Health, Class::Rollout];
        event.changes[0].field = format!("status.conditions[{condition}].reason");
        event.summary = summary.into();
        event
    };
    let trouble = |story: &Story| story.card().lines.iter().find(|line| line.starts_with("In trouble")).cloned();
    story.take(&said("rollout stuck: 3 of 20 pods updated, 20 ready", "Progressing"));
    let stuck = "In trouble: 1 object, web: rollout stuck: 3 of 20 pods updated, 20 ready";
    assert_eq!(trouble(&story).as_deref(), Some(stuck));
    story.take(&said("20 of 20 pods ready", "Available"));
    assert_eq!(trouble(&story).as_deref(), Some(stuck), "that it is available does not make it go on");
    story.take(&said("rolled out: 20 pods ready", "Progressing"));
    assert_eq!(trouble(&story), None);

    story.take(&said("not ready: crash", "Available"));
    let mut child = pod("web", Kind::Deleted, 3);
    child.classes = vec![Class::Lifecycle];
    story.take(&child);
    assert!(trouble(&story).is_some(), "a child of the same name is another object");
    let mut gone = sample::event();
    gone.kind = Kind::Deleted;
    story.take(&gone);
    assert_eq!(trouble(&story), None);
}

/// The sample with another change, by turns from the one value to the other and back.
fn swings(field: &str, [a, b]: [serde_json::Value; 2]) -> impl Iterator<Item = Event> {
    let field = field.to_owned();
    (0..6).map(move |n| {
        let mut event = sample::event();
        event.changes[0].field.clone_from(&field);
        (event.changes[0].from, event.changes[0].to) =
            if n % 2 == 0 { (Some(a.clone()), Some(b.clone())) } else { (Some(b.clone()), Some(a.clone())) };
        event
    })
}

#[test]
fn counts_that_go_up_and_down_in_a_rollout_are_no_flapping() {
    for field in ["status.readyReplicas", "status.conditions[Available].status", "status"] {
        let mut story = Story::default();
        story.take(&sample::event());
        swings(field, [19.into(), 20.into()]).for_each(|event| story.take(&event));
        let card = story.card();
        assert_eq!(card.title, "~ Deployment shop/web, sample, changed by kubectl-edit (by hand)", "{field}");
        assert!(card.lines[0].contains("nginx:1.25 -> nginx:1.27"), "{card:?}");
    }
}

#[test]
fn values_that_differ_only_far_behind_are_not_the_same() {
    let long = |end: &str| serde_json::Value::from(format!("{}{end}", "x".repeat(100)));
    let mut story = Story::default();
    for n in 0..6 {
        let mut event = sample::event();
        event.changes[0].from = Some(long(&n.to_string()));
        event.changes[0].to = Some(long(&(n + 1).to_string()));
        story.take(&event);
    }
    assert!(!story.card().title.contains("flapping"), "each is another: {:?}", story.card());
    let mut story = Story::default();
    swings("spec.text", [long("1"), long("2")]).for_each(|event| story.take(&event));
    let said = "Flapping: text went back and forth 6 times, all by kubectl-edit";
    assert!(story.card().lines.contains(&said.to_owned()), "{:?}", story.card());
}

#[test]
fn a_story_stays_small_and_survives_being_stored() {
    let mut story = Story::default();
    for n in 0..20_000 {
        let mut event = pod(&format!("web-{n}"), Kind::Updated, n);
        event.classes = vec![Class::Health];
        event.summary = format!("Pod failed: {n}");
        story.take(&event);
    }
    let stored = serde_json::to_string(&story).unwrap();
    assert!(stored.len() < 64 * 1024, "{}", stored.len());
    let back: Story = serde_json::from_str(&stored).unwrap();
    assert_eq!(back, story);
}

#[test]
fn a_digest_counts_what_it_does_not_tell() {
    let mut digest = Digest::default();
    for n in 0..300 {
        let mut event = sample::event();
        event.resource.name = format!("web-{}", n % 40);
        event.owner = None;
        digest.add(&Redacted::invented(event));
    }
    let card = digest.card();
    assert_eq!(card.title, "~ 300 changes of 40 objects in 0 s, sample");
    assert!(card.lines[0].starts_with("Deployment: 300 updated"), "{card:?}");
}
