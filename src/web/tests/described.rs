//! Real answers, held against what is described.

use super::*;
use crate::cluster::{
    Version,
    reflector::{Target as _, Update},
};

/// Whether an answer is as the description has it, and has nothing that is not described.
struct Described(Value);

impl Described {
    fn check(&self, path: &str, method: &str, status: &str, answer: &Value) {
        let schema = &self.0["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} {status} is described");
        let whole = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema],
            "unevaluatedProperties": path.ends_with("openapi.json"), "components": self.0["components"]});
        let validator = jsonschema::options().should_validate_formats(true).build(&whole).unwrap();
        let wrong: Vec<String> =
            validator.iter_errors(answer).map(|error| format!("{} at {}", error, error.instance_path())).collect();
        assert!(wrong.is_empty(), "{method} {path}: {wrong:#?} in {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_answers_are_as_they_are_described() {
    let rig = Rig::new().await;
    let described = Described(rig.json("/api/v1/openapi.json").await);
    let door = Door::new(&redact::Settings::default(), &rig.store.redaction_key()).unwrap();
    let config_maps = Resource::core("v1", "configmaps", "ConfigMap");
    let mut feed = rig.store.feed(Feed::new(config_maps.clone(), Scope::All), vec![], false).await.unwrap();
    feed.put(Update::ListBegan).await.unwrap();
    feed.put(Update::ListEnded(Version::from("1"))).await.unwrap();
    for (version, value) in [(5, "one"), (6, "two")] {
        let object = json!({"metadata": {"name": "conf", "namespace": "shop", "uid": "u", "resourceVersion": version.to_string()},
            "data": {"k": value}});
        let document = door.admit(&config_maps, object.to_string().as_bytes()).unwrap();
        feed.put(Update::Applied(document)).await.unwrap();
    }
    rig.store.write(Box::new(|_| Ok(()))).await.unwrap();
    rig.event(9, "bank").await;
    let conf = "/api/v1/objects/core/v1/configmaps/shop/conf";
    let page = rig.json(&format!("{conf}/history")).await;
    let id = page["events"][0]["id"].as_str().unwrap();
    let object = "/api/v1/objects/{group}/{version}/{resource}/{namespace}/{name}";
    let (blame, history) = (format!("{object}/blame"), format!("{object}/history"));
    let silence = json!({"namespace": "shop", "for": "1h", "reason": "migration"});
    let silences = format!("{}/api/v1/silences", rig.url);
    let made = rig.http.post(&silences).json(&silence).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    described.check("/api/v1/silences", "post", "201", &made);
    for (path, address) in [
        ("/api/v1/events", "/api/v1/events".to_owned()),
        ("/api/v1/events", "/api/v1/events?limit=1&full=true".to_owned()),
        ("/api/v1/events/{id}", format!("/api/v1/events/{id}")),
        ("/api/v1/events/{id}", format!("/api/v1/events/{:032x}", 9)),
        ("/api/v1/density", "/api/v1/density".to_owned()),
        ("/api/v1/facets", "/api/v1/facets".to_owned()),
        ("/api/v1/objects", "/api/v1/objects?limit=1".to_owned()),
        (object, conf.to_owned()),
        (object, format!("{conf}?event={id}")),
        (&blame, format!("{conf}/blame")),
        (&history, format!("{conf}/history?limit=1")),
        (&history, format!("{conf}/history?event={id}&order=asc")),
        ("/api/v1/silences", "/api/v1/silences".to_owned()),
        ("/api/v1/status", "/api/v1/status".to_owned()),
        ("/api/v1/whoami", "/api/v1/whoami".to_owned()),
        ("/api/v1/openapi.json", "/api/v1/openapi.json".to_owned()),
    ] {
        described.check(path, "get", "200", &rig.json(&address).await);
    }
    let status = rig.json("/api/v1/status").await;
    let properties = &described.0["paths"]["/api/v1/status"]["get"]["responses"]["200"]["content"]["application/json"]
        ["schema"]["properties"];
    for part in ["informers", "sinks"] {
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
        assert_eq!(names(&status[part][0]), names(&properties[part]["items"]["properties"]), "{part}");
    }
    let missing = rig.get("/api/v1/events/ffffffffffffffff").send().await.unwrap().json().await.unwrap();
    described.check("/api/v1/events/{id}", "get", "default", &missing);
    let ended = rig.http.delete(format!("{silences}/{}", made["id"])).send().await.unwrap().json().await.unwrap();
    described.check("/api/v1/silences/{id}", "delete", "200", &ended);
    // What is checked against can fail.
    let wrong = std::panic::catch_unwind(|| described.check("/api/v1/whoami", "get", "200", &json!({"auth": "maybe"})));
    assert!(wrong.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_changes_begins_at_a_time_or_an_event() {
    let rig = Rig::new().await;
    for n in 1..=5u32 {
        let mut event = sample::event_now();
        event.id = format!("{n:032x}");
        event.time = Timestamp::from_second(1_800_000_000 + i64::from(n)).unwrap();
        rig.ledger.append(&rig.store, Arc::new(Redacted::invented(event))).await.unwrap();
    }
    let of = async |query: &str| -> Vec<i64> {
        let page = rig.json(&format!("/api/v1/objects/apps/v1/deployments/shop/web/history?{query}")).await;
        page["events"].as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()).collect()
    };
    let third = Timestamp::from_second(1_800_000_003).unwrap();
    assert_eq!(of(&format!("at={third}")).await, [3, 2, 1]);
    assert_eq!(of(&format!("at={third}&order=asc")).await, [4, 5]);
    assert_eq!(of(&format!("event={:032x}&limit=1", 2)).await, [2]);
    assert_eq!(of(&format!("event={:032x}&order=asc&limit=1", 2)).await, [3]);
    assert_eq!(of("at=2020-01-01T00:00:00Z").await, Vec::<i64>::new());
    assert_eq!(of("at=2020-01-01T00:00:00Z&order=asc").await, [1, 2, 3, 4, 5]);
    assert_eq!(of(&format!("at={third}&cursor=5")).await, [4, 3, 2, 1], "a page goes on by its cursor");
}
