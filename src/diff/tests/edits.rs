//! Real edits, and for each the patch that a person would write.

use serde_json::json;

use super::{super::keys::Schema, *};

fn deployment() -> Value {
    let env: Vec<Value> =
        (0..20).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value of {n}")})).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "front"},
            "annotations": {"example.com/owner": "team-shop"}, "finalizers": ["example.com/a", "example.com/b"],
        },
        "spec": {"replicas": 3, "template": {"spec": {
            "containers": [
                {"name": "web", "image": "nginx:1.25", "args": ["--port", "80", "--verbose"], "env": env,
                 "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
                 "volumeMounts": [{"name": "conf", "mountPath": "/etc/web"}, {"name": "conf", "mountPath": "/etc/x"}]},
                {"name": "log", "image": "fluent:3", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}},
                {"name": "proxy", "image": "envoy:1.30", "resources": {"limits": {"cpu": "1", "memory": "256Mi"}}},
            ],
            "tolerations": [
                {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            ],
        }}},
        "status": {"readyReplicas": 3, "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ]},
    })
}

fn config_map() -> Value {
    let file: String = (0..40).map(|n| format!("server.option{n} = {n}\n")).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"app.conf": file}})
}

fn custom() -> Value {
    let rule = |verb: &str, path: &str| json!({"match": {"verb": verb, "prefix": path}, "action": {"allow": true}});
    json!({
        "kind": "Gateway", "apiVersion": "example.com/v1",
        "spec": {
            "listeners": [
                {"name": "http", "port": 80, "tls": {"mode": "off"}}, {"name": "https", "port": 443, "tls": {"mode": "on"}},
            ],
            "rules": [rule("GET", "/a"), rule("POST", "/b"), rule("PUT", "/c"), rule("GET", "/d")],
            "weights": [1, 2, 3, 5, 8, 13],
            "pools": [pool("a", "1", 1, "on"), pool("a", "2", 1, "on")],
        },
    })
}

fn pool(zone: &str, tier: &str, size: u8, mode: &str) -> Value {
    let note = "machines that are kept warm for the evening, when most of the people come home and order something";
    json!({"zone": zone, "tier": tier, "size": size, "mode": mode, "note": note})
}

/// What the server would publish of it: pools are known by zone and tier, which nobody could guess.
fn custom_schema() -> Value {
    let keyed = |keys: Value| json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    json!({"components": {"schemas": {"com.example.v1.Gateway": {
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Gateway"}],
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "listeners": keyed(json!(["name"])),
            "pools": keyed(json!(["zone", "tier"])),
        }}},
    }}}})
}

struct Edit {
    name: &'static str,
    old: Value,
    edit: fn(&mut Value),
    patch: Value,
    fields: &'static [&'static str],
    /// Whether the edit is one of a list, by which we compare with comparing by index.
    in_list: bool,
    /// Whether the items are known by keys that only the schema tells.
    by_schema: bool,
}

fn at<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"))
}

fn items<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Vec<Value> {
    at(value, pointer).as_array_mut().unwrap()
}

const SPEC: &str = "/spec/template/spec";

fn table() -> Vec<Edit> {
    let row = |name, old, edit, patch, fields| Edit { name, old, edit, patch, fields, in_list: true, by_schema: false };
    let plain = |name, old, edit, patch, fields| Edit { in_list: false, ..row(name, old, edit, patch, fields) };
    let by_schema = |name, old, edit, patch, fields| Edit { by_schema: true, ..row(name, old, edit, patch, fields) };
    let conf = config_map()["data"]["app.conf"].as_str().unwrap().replace("option7 = 7\n", "option7 = 70\n");
    vec![
        plain(
            "image",
            deployment(),
            |d| *at(d, "/spec/template/spec/containers/0/image") = json!("nginx:1.27"),
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.27"}]),
            &["spec.template.spec.containers[web].image"],
        ),
        row(
            "env inserted at the head",
            deployment(),
            |d| items(d, &format!("{SPEC}/containers/0/env")).insert(0, json!({"name": "LOG_LEVEL", "value": "debug"})),
            json!([{"op": "add", "path": "/spec/template/spec/containers/0/env/0",
                    "value": {"name": "LOG_LEVEL", "value": "debug"}}]),
            &["spec.template.spec.containers[web].env[LOG_LEVEL]"],
        ),
        row(
            "env changed behind one inserted at the head",
            deployment(),
            |d| {
                let env = items(d, &format!("{SPEC}/containers/0/env"));
                env[3]["value"] = json!("other");
                env.insert(0, json!({"name": "A", "value": "1"}));
            },
            json!([{"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": {"name": "A", "value": "1"}},
                   {"op": "replace", "path": "/spec/template/spec/containers/0/env/4/value", "value": "other"}]),
            &["spec.template.spec.containers[web].env[A]", "spec.template.spec.containers[web].env[SETTING_3].value"],
        ),
        row(
            "env removed from the middle",
            deployment(),
            |d| drop(items(d, &format!("{SPEC}/containers/0/env")).remove(4)),
            json!([{"op": "remove", "path": "/spec/template/spec/containers/0/env/4"}]),
            &["spec.template.spec.containers[web].env[SETTING_4]"],
        ),
        row(
            "port added",
            deployment(),
            |d| {
                items(d, &format!("{SPEC}/containers/0/ports"))
                    .insert(1, json!({"containerPort": 443, "protocol": "TCP"}));
            },
            json!([{"op": "add", "path": "/spec/template/spec/containers/0/ports/1",
                    "value": {"containerPort": 443, "protocol": "TCP"}}]),
            &["spec.template.spec.containers[web].ports[443/TCP]"],
        ),
        row(
            "port removed",
            deployment(),
            |d| drop(items(d, &format!("{SPEC}/containers/0/ports")).remove(0)),
            json!([{"op": "remove", "path": "/spec/template/spec/containers/0/ports/0"}]),
            &["spec.template.spec.containers[web].ports[80/TCP]"],
        ),
        plain(
            "condition flipped",
            deployment(),
            |d| *at(d, "/status/conditions/0/status") = json!("False"),
            json!([{"op": "replace", "path": "/status/conditions/0/status", "value": "False"}]),
            &["status.conditions[Available].status"],
        ),
        row(
            "condition comes first",
            deployment(),
            |d| items(d, "/status/conditions").insert(0, json!({"type": "ReplicaFailure", "status": "True"})),
            json!([{"op": "add", "path": "/status/conditions/0", "value": {"type": "ReplicaFailure", "status": "True"}}]),
            &["status.conditions[ReplicaFailure]"],
        ),
        row(
            "container reordered",
            deployment(),
            |d| items(d, &format!("{SPEC}/containers")).rotate_left(1),
            json!([{"op": "move", "from": "/spec/template/spec/containers/0", "path": "/spec/template/spec/containers/2"}]),
            &["spec.template.spec.containers[web]"],
        ),
        row(
            "container reordered and changed",
            deployment(),
            |d| {
                let containers = items(d, &format!("{SPEC}/containers"));
                containers[0]["image"] = json!("nginx:1.27");
                containers.rotate_left(1);
            },
            json!([{"op": "move", "from": "/spec/template/spec/containers/0", "path": "/spec/template/spec/containers/2"},
                   {"op": "replace", "path": "/spec/template/spec/containers/2/image", "value": "nginx:1.27"}]),
            &["spec.template.spec.containers[web]", "spec.template.spec.containers[web].image"],
        ),
        row(
            "sidecar put before the others",
            deployment(),
            |d| items(d, &format!("{SPEC}/containers")).insert(0, json!({"name": "mesh", "image": "mesh:1"})),
            json!([{"op": "add", "path": "/spec/template/spec/containers/0", "value": {"name": "mesh", "image": "mesh:1"}}]),
            &["spec.template.spec.containers[mesh]"],
        ),
        row(
            "argument put before the others",
            deployment(),
            |d| items(d, &format!("{SPEC}/containers/0/args")).insert(0, json!("--quiet")),
            json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/0", "value": "--quiet"}]),
            &["spec.template.spec.containers[web].args[0]"],
        ),
        row(
            "toleration removed, keys repeat",
            deployment(),
            |d| drop(items(d, &format!("{SPEC}/tolerations")).remove(0)),
            json!([{"op": "remove", "path": "/spec/template/spec/tolerations/0"}]),
            &["spec.template.spec.tolerations[0]"],
        ),
        row(
            "finalizer removed",
            deployment(),
            |d| drop(items(d, "/metadata/finalizers").remove(0)),
            json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
            &["metadata.finalizers[0]"],
        ),
        row(
            "volume mount by its path",
            deployment(),
            |d| drop(items(d, &format!("{SPEC}/containers/0/volumeMounts")).remove(0)),
            json!([{"op": "remove", "path": "/spec/template/spec/containers/0/volumeMounts/0"}]),
            &["spec.template.spec.containers[web].volumeMounts[/etc/web]"],
        ),
        plain(
            "ConfigMap line",
            config_map(),
            |d| {
                let text = at(d, "/data/app.conf").as_str().unwrap().replace("option7 = 7\n", "option7 = 70\n");
                *at(d, "/data/app.conf") = text.into();
            },
            json!([{"op": "replace", "path": "/data/app.conf", "value": conf}]),
            &["data[\"app.conf\"]"],
        ),
        plain(
            "label removed",
            deployment(),
            |d| drop(at(d, "/metadata/labels").as_object_mut().unwrap().remove("tier")),
            json!([{"op": "remove", "path": "/metadata/labels/tier"}]),
            &["metadata.labels.tier"],
        ),
        plain(
            "annotation added",
            deployment(),
            |d| at(d, "/metadata/annotations")["example.com/seen"] = json!("yes"),
            json!([{"op": "add", "path": "/metadata/annotations/example.com~1seen", "value": "yes"}]),
            &["metadata.annotations[\"example.com/seen\"]"],
        ),
        plain(
            "replicas and image together",
            deployment(),
            |d| {
                *at(d, "/spec/replicas") = json!(5);
                *at(d, "/spec/template/spec/containers/2/image") = json!("envoy:1.31");
            },
            json!([{"op": "replace", "path": "/spec/replicas", "value": 5},
                   {"op": "replace", "path": "/spec/template/spec/containers/2/image", "value": "envoy:1.31"}]),
            &["spec.replicas", "spec.template.spec.containers[proxy].image"],
        ),
        plain(
            "both limits: the object is shorter than its members",
            deployment(),
            |d| {
                *at(d, "/spec/template/spec/containers/1/resources/limits") = json!({"cpu": "200m", "memory": "128Mi"});
            },
            json!([{"op": "replace", "path": "/spec/template/spec/containers/1/resources/limits",
                    "value": {"cpu": "200m", "memory": "128Mi"}}]),
            &[
                "spec.template.spec.containers[log].resources.limits.cpu",
                "spec.template.spec.containers[log].resources.limits.memory",
            ],
        ),
        row(
            "custom list with keys: listener added first, another changed",
            custom(),
            |d| {
                let listeners = items(d, "/spec/listeners");
                listeners[1]["tls"]["mode"] = json!("strict");
                listeners.insert(0, json!({"name": "grpc", "port": 9000}));
            },
            json!([{"op": "add", "path": "/spec/listeners/0", "value": {"name": "grpc", "port": 9000}},
                   {"op": "replace", "path": "/spec/listeners/2/tls/mode", "value": "strict"}]),
            &["spec.listeners[grpc]", "spec.listeners[https].tls.mode"],
        ),
        by_schema(
            "custom list with keys of its schema: a pool like the first put before it, the first changed",
            custom(),
            |d| {
                let pools = items(d, "/spec/pools");
                pools[0] = pool("a", "1", 2, "off");
                pools.insert(0, pool("b", "1", 1, "on"));
            },
            json!([{"op": "add", "path": "/spec/pools/0", "value": pool("b", "1", 1, "on")},
                   {"op": "replace", "path": "/spec/pools/1/mode", "value": "off"},
                   {"op": "replace", "path": "/spec/pools/1/size", "value": 2}]),
            &["spec.pools[b/1]", "spec.pools[a/1].mode", "spec.pools[a/1].size"],
        ),
        row(
            "custom list without keys: rule added first",
            custom(),
            |d| items(d, "/spec/rules").insert(0, json!({"match": {"verb": "PUT"}, "action": {"allow": false}})),
            json!([{"op": "add", "path": "/spec/rules/0", "value": {"match": {"verb": "PUT"}, "action": {"allow": false}}}]),
            &["spec.rules[0]"],
        ),
        row(
            "custom list without keys: rule removed, another changed",
            custom(),
            |d| {
                let rules = items(d, "/spec/rules");
                rules[3]["action"]["allow"] = json!(false);
                rules.remove(1);
            },
            json!([{"op": "remove", "path": "/spec/rules/1"},
                   {"op": "replace", "path": "/spec/rules/2/action/allow", "value": false}]),
            &["spec.rules[1]", "spec.rules[2].action.allow"],
        ),
        row(
            "custom list without keys: the first rule removed, the next one changed",
            custom(),
            |d| {
                let rules = items(d, "/spec/rules");
                rules[1]["action"]["allow"] = json!(false);
                rules.remove(0);
            },
            json!([{"op": "remove", "path": "/spec/rules/0"},
                   {"op": "replace", "path": "/spec/rules/0/action/allow", "value": false}]),
            &["spec.rules[0]", "spec.rules[0].action.allow"],
        ),
        row(
            "custom list of numbers: one put in between",
            custom(),
            |d| items(d, "/spec/weights").insert(3, json!(4)),
            json!([{"op": "add", "path": "/spec/weights/3", "value": 4}]),
            &["spec.weights[3]"],
        ),
    ]
}

fn keys_of(document: &Value) -> Keys {
    let schema = |document: Value| Schema::from_openapi(document.to_string().as_bytes()).unwrap();
    match document["kind"].as_str() {
        Some("Deployment") => schema(super::super::keys::tests::document()).kind("apps", "v1", "Deployment"),
        Some("Gateway") => schema(custom_schema()).kind("example.com", "v1", "Gateway"),
        _ => Keys::default(),
    }
}

#[test]
fn the_patch_of_an_edit_is_the_one_that_a_person_would_write() {
    for Edit { name, old, edit, patch, fields, .. } in table() {
        let mut new = old.clone();
        edit(&mut new);
        let diff = checked(&old, &new, &keys_of(&old));
        assert_eq!(serde_json::to_value(&diff.patch).unwrap(), patch, "{name}");
        let got: Vec<&str> = diff.changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(got, fields, "{name}");
    }
}

#[test]
fn keys_are_found_without_a_schema_too() {
    for Edit { name, old, edit, patch, by_schema, .. } in table() {
        let mut new = old.clone();
        edit(&mut new);
        let diff = checked(&old, &new, &Keys::default());
        // Else it would show nothing of the schema.
        assert_eq!(serde_json::to_value(&diff.patch).unwrap() != patch, by_schema, "{name}");
    }
}

#[test]
fn list_edits_take_less_than_half_of_what_comparing_by_index_gives() {
    let mut shares = Vec::new();
    for Edit { old, edit, .. } in table().into_iter().filter(|edit| edit.in_list) {
        let mut new = old.clone();
        edit(&mut new);
        let ours = checked(&old, &new, &keys_of(&old)).patch.to_string().len();
        let by_index = json_patch::diff(&old, &new).to_string().len();
        #[allow(clippy::cast_precision_loss)]
        shares.push(ours as f64 / by_index as f64);
    }
    #[allow(clippy::cast_precision_loss)]
    let average = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(average < 0.5, "{average} of {shares:?}");
}

#[test]
fn a_patch_is_never_longer_than_comparing_by_index() {
    for Edit { name, old, edit, .. } in table() {
        let mut new = old.clone();
        edit(&mut new);
        let ours = checked(&old, &new, &keys_of(&old)).patch.to_string();
        let by_index = json_patch::diff(&old, &new).to_string();
        assert!(ours.len() <= by_index.len(), "{name}\n{ours}\n{by_index}");
    }
}
