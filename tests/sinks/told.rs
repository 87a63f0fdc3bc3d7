//! Events as kubediff makes them, without a cluster: objects that go through the door, are compared and told.

use std::sync::Arc;

use jiff::Timestamp;
use kubediff::{
    cluster::{Resource, Version},
    diff::{self, Keys},
    event::{Builder, Kind, Observed, Redacted, State, What, owner::Unknown},
    redact::{Document, Door, Settings},
    sink::sample,
};
use serde_json::{Value, json};

fn admit(resource: &Resource, object: &Value) -> Document {
    let door = Door::new(&Settings::default(), &[7; 32]).unwrap();
    door.admit(resource, object.to_string().as_bytes()).unwrap()
}

fn build(resource: &Resource, what: What<'_>) -> Arc<Redacted> {
    let builder = Builder::new(sample::event().cluster);
    Arc::new(builder.build(resource, Observed::Live, Timestamp::now(), what, &Unknown))
}

/// What is asked for of a Deployment in the namespace `shop`.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    pub image: &'a str,
    pub replicas: u32,
}

/// `manager` changes one to the other, which is the version `version` of the Deployment.
pub fn updated(name: &str, version: usize, manager: &str, from: Wish<'_>, to: Wish<'_>) -> Arc<Redacted> {
    let resource = Resource {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        kind: "Deployment".into(),
        short_names: Vec::new(),
        namespaced: true,
    };
    let object = |wish: Wish<'_>, version: String, time: &str| {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
            r#"k:{"name":"web"}"#: {"f:image": {}}}}}}});
        let manager = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        let spec = json!({"replicas": wish.replicas,
            "template": {"spec": {"containers": [{"name": "web", "image": wish.image}]}}});
        admit(
            &resource,
            &json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"),
            "resourceVersion": version, "managedFields": [manager]}, "spec": spec}),
        )
    };
    let (old, new) = (
        object(from, format!("{version}-before"), "2026-11-16T11:42:16Z"),
        object(to, version.to_string(), "2026-11-16T11:42:17Z"),
    );
    let (was, is) = (old.contents(), new.contents());
    let diff = diff::documents(&was, &is, &Keys::default());
    let (old, new) = (State { document: &old, contents: &was }, State { document: &new, contents: &is });
    build(&resource, What::Updated { old, new, diff })
}

/// A Pod of the Deployment `web` comes or goes.
pub fn pod(name: &str, kind: Kind) -> Arc<Redacted> {
    let resource = Resource::core("v1", "pods", "Pod");
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-of-web", "controller": true});
    let document = admit(
        &resource,
        &json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"),
            "resourceVersion": "7", "ownerReferences": [owner]}}),
    );
    let state = State { document: &document, contents: &document.contents() };
    let what = match kind {
        Kind::Deleted => What::Deleted { old: state, version: &Version::from("8") },
        Kind::Created | Kind::Updated => What::Created { new: state },
    };
    build(&resource, what)
}
