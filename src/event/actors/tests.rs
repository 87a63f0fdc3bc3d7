use serde_json::{Value, json};

use proptest::prelude::*;

use super::*;
use crate::diff::{Change, Op};

#[allow(clippy::needless_pass_by_value)] // `json!` at the call is what reads well
fn entry(manager: &str, operation: &str, subresource: &str, time: &str, fields: Value) -> Value {
    let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": fields});
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

fn change(op: Op, path: &str) -> Change {
    Change { op, path: path.into(), field: String::new(), from: None, to: None, lines: None }
}

fn deployment(image: &str, replicas: u32, env: &Value) -> Value {
    json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": [
        {"name": "proxy", "image": "envoy:1"}, {"name": "web", "image": image, "env": env}]}}},
        "metadata": {"labels": {"app": "web", "team": "shop"}, "finalizers": ["a/b"]}})
}

fn image_of(container: &str) -> Value {
    json!({"f:spec": {"f:template": {"f:spec": {"f:containers":
        {format!("k:{{\"name\":\"{container}\"}}"): {".": {}, "f:image": {}, "f:name": {}}}}}}})
}

fn who(before: &[Value], after: &[Value], changes: &[Change], old: &Value, new: &Value) -> Vec<String> {
    let text = |entries: &[Value]| serde_json::to_vec(&entries).unwrap();
    let spots = Spot::locate_all(changes, old, new);
    let actors = of_update(&text(before), &text(after), &spots);
    actors.iter().map(|a| format!("{} {} {}", a.manager, a.operation, a.subresource).trim_end().to_owned()).collect()
}

const T1: &str = "2026-11-16T10:00:00Z";
const T2: &str = "2026-11-16T11:42:17Z";

#[test]
fn the_editor_who_took_the_image_over_is_named_and_the_controller_that_lost_it_is_not() {
    let (old, new) = (deployment("nginx:1.25", 3, &json!([])), deployment("nginx:1.27", 3, &json!([])));
    let helm_before = entry("helm", "Update", "", T1, image_of("web"));
    let helm_after = entry("helm", "Update", "", T1, json!({"f:spec": {"f:replicas": {}}}));
    let kcm = entry("kube-controller-manager", "Update", "status", T1, json!({"f:status": {"f:replicas": {}}}));
    let edit = entry("kubectl-edit", "Update", "", T2, image_of("web"));
    let changes = [change(Op::Replace, "/spec/template/spec/containers/1/image")];
    assert_eq!(
        who(&[helm_before, kcm.clone()], &[helm_after, edit, kcm], &changes, &old, &new),
        ["kubectl-edit Update"]
    );
}

#[test]
fn only_the_container_that_changed_counts() {
    let (old, new) = (deployment("nginx:1.25", 3, &json!([])), deployment("nginx:1.27", 3, &json!([])));
    let before = [entry("a", "Apply", "", T1, image_of("proxy")), entry("b", "Apply", "", T1, image_of("web"))];
    let after = [entry("a", "Apply", "", T2, image_of("proxy")), entry("b", "Apply", "", T2, image_of("web"))];
    let changes = [change(Op::Replace, "/spec/template/spec/containers/1/image")];
    assert_eq!(who(&before, &after, &changes, &old, &new), ["b Apply"]);
}

#[test]
fn server_side_apply_is_told_from_an_update_and_status_and_scale_from_the_object() {
    let (old, new) = (deployment("nginx:1", 3, &json!([])), deployment("nginx:1", 5, &json!([])));
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let status = json!({"f:status": {"f:replicas": {}}});
    let scale = [change(Op::Replace, "/spec/replicas")];
    let apply = entry("argocd-controller", "Apply", "", T2, replicas.clone());
    assert_eq!(who(&[], &[apply], &scale, &old, &new), ["argocd-controller Apply"]);
    let hpa = entry("kube-controller-manager", "Update", "scale", T2, replicas);
    let kcm = entry("kube-controller-manager", "Update", "status", T2, status);
    assert_eq!(who(&[], &[hpa.clone(), kcm.clone()], &scale, &old, &new), ["kube-controller-manager Update scale"]);
    let both = [change(Op::Replace, "/spec/replicas"), change(Op::Replace, "/status/replicas")];
    assert_eq!(who(&[], &[hpa, kcm], &both, &old, &new).len(), 2);
}

#[test]
fn two_managers_that_each_changed_a_part_are_both_named_the_newest_first() {
    let (old, new) = (deployment("nginx:1", 3, &json!([])), deployment("nginx:2", 5, &json!([])));
    let a = entry("deployer", "Update", "", T1, image_of("web"));
    let b = entry("kubectl-scale", "Update", "", T2, json!({"f:spec": {"f:replicas": {}}}));
    let changes =
        [change(Op::Replace, "/spec/replicas"), change(Op::Replace, "/spec/template/spec/containers/1/image")];
    assert_eq!(who(&[], &[a, b], &changes, &old, &new), ["kubectl-scale Update", "deployer Update"]);
}

#[test]
fn an_added_list_item_belongs_to_whoever_owns_its_parts() {
    let env = json!([{"name": "LOG_LEVEL", "value": "debug"}]);
    let (old, new) = (deployment("nginx:1", 3, &json!([])), deployment("nginx:1", 3, &env));
    let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:env":
        {"k:{\"name\":\"LOG_LEVEL\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}});
    let set = entry("kubectl-set", "Update", "", T2, fields);
    let changes = [change(Op::Add, "/spec/template/spec/containers/1/env/0")];
    assert_eq!(who(&[], &[set], &changes, &old, &new), ["kubectl-set Update"]);
}

#[test]
fn a_port_matches_by_both_of_its_keys_and_a_default_protocol_may_be_missing() {
    let new = json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}});
    let tcp = json!({"f:spec": {"f:ports": {"k:{\"port\":53,\"protocol\":\"TCP\"}": {"f:port": {}}}}});
    let udp = json!({"f:spec": {"f:ports": {"k:{\"port\":53,\"protocol\":\"UDP\"}": {"f:port": {}}}}});
    let web = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:port": {}}}}});
    let entries =
        [entry("tcp", "Update", "", T2, tcp), entry("udp", "Update", "", T2, udp), entry("web", "Update", "", T2, web)];
    assert_eq!(who(&[], &entries, &[change(Op::Replace, "/spec/ports/1/port")], &Value::Null, &new), ["udp Update"]);
    assert_eq!(who(&[], &entries, &[change(Op::Replace, "/spec/ports/0/port")], &Value::Null, &new), ["web Update"]);
}

#[test]
fn a_finalizer_matches_by_its_value_and_an_atomic_list_as_a_whole() {
    let new = json!({"metadata": {"finalizers": ["a/b", "c/d"]}, "spec": {"args": ["-v", "-x"]}});
    let fields = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"c/d\"": {}}}});
    let other = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}}});
    let entries = [entry("mine", "Update", "", T2, fields), entry("other", "Update", "", T2, other)];
    assert_eq!(who(&[], &entries, &[change(Op::Add, "/metadata/finalizers/1")], &Value::Null, &new), ["mine Update"]);
    let args = entry("args", "Update", "", T2, json!({"f:spec": {"f:args": {}}}));
    let labels = entry("labels", "Update", "", T2, json!({"f:metadata": {"f:labels": {}}}));
    assert_eq!(who(&[], &[args, labels], &[change(Op::Replace, "/spec/args/1")], &Value::Null, &new), ["args Update"]);
}

#[test]
fn an_apply_that_drops_a_field_is_named_and_one_that_only_lost_it_to_an_edit_is_not() {
    let (old, new) = (deployment("nginx:1", 3, &json!([])), Value::Null);
    let with = json!({"f:metadata": {"f:labels": {"f:app": {}, "f:team": {}}}});
    let without = json!({"f:metadata": {"f:labels": {"f:app": {}}}});
    let gone = [change(Op::Remove, "/metadata/labels/team")];
    let before = [entry("flux", "Apply", "", T1, with.clone())];
    assert_eq!(who(&before, &[entry("flux", "Apply", "", T2, without.clone())], &gone, &old, &new), ["flux Apply"]);
    assert_eq!(who(&before, &[entry("flux", "Apply", "", T1, without.clone())], &gone, &old, &new), [""; 0]);
    let before = [entry("kubectl-label", "Update", "", T1, with)];
    let after = [entry("kubectl-label", "Update", "", T1, without)];
    assert_eq!(who(&before, &after, &gone, &old, &new), ["kubectl-label Update"]);
    assert_eq!(who(&before, &[], &gone, &old, &new), ["kubectl-label Update"]);
}

/// What kube-apiserver 1.36 writes: the loser of a map's last key keeps `f:data: {}`, which looks like all of it.
#[test]
fn who_took_the_last_key_of_a_map_over_is_named_alone_also_in_the_second_of_its_creation() {
    let (old, new) = (json!({"data": {"tls.key": "hmac:a"}}), json!({"data": {"tls.key": "hmac:b"}}));
    let created = json!({"f:data": {".": {}, "f:tls.key": {}}, "f:type": {}});
    let left = json!({"f:data": {}, "f:type": {}});
    let patched = json!({"f:data": {"f:tls.key": {}}});
    let changes = [change(Op::Replace, "/data/tls.key")];
    for (created_again, time) in [(T1, T1), (T1, T2), (T2, T2)] {
        let before = [entry("kubectl-create", "Update", "", T1, created.clone())];
        let after = [
            entry("kubectl-create", "Update", "", created_again, left.clone()),
            entry("kubectl-patch", "Update", "", time, patched.clone()),
        ];
        assert_eq!(who(&before, &after, &changes, &old, &new), ["kubectl-patch Update"], "{created_again} {time}");
    }
}

#[test]
fn a_manager_that_gains_a_field_in_the_second_of_its_last_change_is_named() {
    let (old, new) = (json!({"data": {"a": "1", "b": "1"}}), json!({"data": {"a": "1", "b": "2"}}));
    let one = entry("one", "Update", "", T1, json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    let one_left = entry("one", "Update", "", T1, json!({"f:data": {".": {}, "f:a": {}}}));
    let two = entry("two", "Update", "", T1, json!({"f:data": {"f:c": {}}}));
    let two_more = entry("two", "Update", "", T1, json!({"f:data": {"f:b": {}, "f:c": {}}}));
    let changes = [change(Op::Replace, "/data/b")];
    assert_eq!(who(&[one, two], &[one_left, two_more], &changes, &old, &new), ["two Update"]);
}

#[test]
fn a_change_within_the_second_is_not_put_on_one_who_only_lost_a_field_beside_it() {
    let (old, new) = (json!({"data": {"a": "1", "b": "1"}}), json!({"data": {"a": "2"}}));
    let mine = entry("mine", "Update", "", T1, json!({"f:data": {"f:a": {}}}));
    let before = [entry("other", "Update", "", T1, json!({"f:data": {".": {}, "f:b": {}}})), mine.clone()];
    let after = [entry("other", "Update", "", T1, json!({"f:data": {}})), mine];
    let changes = [change(Op::Replace, "/data/a"), change(Op::Remove, "/data/b")];
    assert_eq!(who(&before, &after, &changes, &old, &new), ["mine Update"]);
}

#[test]
fn when_no_entry_differs_the_owner_of_the_changed_path_made_it_in_the_same_second() {
    let (old, new) = (deployment("nginx:1", 3, &json!([])), deployment("nginx:2", 3, &json!([])));
    let entries = [
        entry("deployer", "Update", "", T2, image_of("web")),
        entry("x", "Update", "status", T2, json!({"f:status": {}})),
    ];
    let changes = [change(Op::Replace, "/spec/template/spec/containers/1/image")];
    assert_eq!(who(&entries, &entries, &changes, &old, &new), ["deployer Update"]);
}

#[test]
fn who_asked_for_a_deletion_is_not_recorded_and_not_guessed() {
    let entries = [entry("helm", "Update", "", T2, image_of("web"))];
    let changes = [change(Op::Add, "/metadata/deletionTimestamp")];
    let (old, new) = (json!({"metadata": {}}), json!({"metadata": {"deletionTimestamp": T2}}));
    assert_eq!(who(&entries, &entries, &changes, &old, &new), [""; 0]);
}

#[test]
fn when_nothing_matches_the_entries_with_a_new_time_are_named() {
    let before = [
        entry("a", "Update", "", T1, json!({"f:spec": {"f:x": {}}})),
        entry("b", "Update", "", T1, json!({"f:spec": {"f:y": {}}})),
    ];
    let after = [entry("a", "Update", "", T2, json!({"f:spec": {"f:x": {}}})), before[1].clone()];
    assert_eq!(
        who(&before, &after, &[change(Op::Replace, "/spec/z")], &Value::Null, &json!({"spec": {"z": 1}})),
        ["a Update"]
    );
}

#[test]
fn what_is_no_managed_fields_array_names_nobody() {
    for text in ["", "null", "{}", "[1, null, {\"manager\": 7}]", "[{\"manager\":\"x\",\"fieldsV1\":[1]}"] {
        assert_eq!(of_update(text.as_bytes(), b"[]", &[]), []);
        assert_eq!(of_created(text.as_bytes()), []);
    }
}

#[test]
fn a_created_object_names_the_managers_of_its_first_version() {
    let text = serde_json::to_vec(&[entry("helm", "Apply", "", T1, json!({"f:spec": {}}))]).unwrap();
    let actors = of_created(&text);
    assert_eq!(actors.len(), 1);
    assert_eq!((actors[0].manager.as_str(), actors[0].time), ("helm", Some(T1.parse().unwrap())));
}

#[test]
fn peoples_own_tools_are_by_hand_and_controllers_gitops_and_helm_are_not() {
    for manager in [
        "kubectl",
        "kubectl-edit",
        "kubectl-client-side-apply",
        "k9s",
        "Lens",
        "node-fetch",
        "curl",
        "Mozilla",
        "Mozilla/5.0",
        "python-requests",
        "oc",
        "OpenAPI-Generator",
    ] {
        assert!(by_hand(manager), "{manager}");
    }
    for manager in [
        "kube-controller-manager",
        "kubelet",
        "argocd-controller",
        "argocd-application-controller",
        "flux-client-side-apply",
        "kustomize-controller",
        "helm",
        "Helm",
        "helm-controller",
        "terraform",
        "ocp-operator",
        "dashboard-controller",
        "octo",
        "",
        "argo-controller",
    ] {
        assert!(!by_hand(manager), "{manager}");
    }
}

/// Names and, inside of them, sets again or anything else.
fn arbitrary_set() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(null)),
        Just(json!([{"a": "}"}, 1])),
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop::collection::btree_map(any::<String>(), inner, 0..6)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

proptest! {
    #[test]
    fn a_set_is_walked_as_it_would_be_parsed(set in arbitrary_set()) {
        let text = set.to_string();
        let walked: Vec<_> = Fields(&text).sets().map(|(name, inside)| (name.into_owned(), inside.0)).collect();
        let parsed: Vec<_> = set.as_object().into_iter().flatten().map(|(name, inside)| (name.clone(), inside.to_string())).collect();
        prop_assert_eq!(walked.len(), parsed.len());
        for (walked, parsed) in walked.iter().zip(&parsed) {
            prop_assert_eq!((&walked.0, walked.1), (&parsed.0, parsed.1.as_str()));
        }
    }

    #[test]
    fn whatever_a_set_looks_like_it_is_walked_to_an_end(text in "[\\[\\]{}\",:\\\\a]{0,40}") {
        let names = Fields(&text).sets().count();
        prop_assert!(names <= text.len());
        Fields(&text).depth(&[Step::Key("a".into()), Step::Key("b".into())], &Cell::new(STEPS));
    }
}
