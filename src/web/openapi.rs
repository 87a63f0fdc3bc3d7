//! The API described for machines: OpenAPI 3.1.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::{
    event::Event,
    history::{
        around::Surroundings,
        blame::Line,
        chain::Link,
        counts::{Density, Facets},
        detail::Delivery,
        doubt::Doubt,
        objects::Listed,
        rows::Row,
    },
    ledger::silences::Silence,
};

const OBJECT: &str = "/api/v1/objects/{group}/{version}/{resource}/{namespace}/{name}";

/// The whole description.
pub fn description() -> Value {
    let mut schemas =
        Schemas(SchemaSettings::draft2020_12().with(|s| s.definitions_path = DEFINITIONS.into()).into_generator());
    let row = schemas.of::<Row>();
    let event = schemas.of::<Event>();
    let line = schemas.of::<Line>();
    let silence = schemas.of::<Silence>();
    let (listed, delivery) = (schemas.of::<Listed>(), schemas.of::<Delivery>());
    let (doubt, around, link) = (schemas.of::<Doubt>(), schemas.of::<Surroundings>(), schemas.of::<Link>());
    let (density, facets) = (schemas.of::<Density>(), schemas.of::<Facets>());
    let rows = object(&[
        ("events", json!({"type": "array", "items": {"anyOf": [row, event]}}), true),
        ("next", text("the cursor of the next page; left out at the end"), false),
    ]);
    let nullable = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
    let document =
        nullable(json!({"type": "object", "description": "an object as redaction and the noise profile leave it"}));
    let patch = nullable(json!({"type": "array", "items": {"type": "object"}, "description": "RFC 6902"}));
    let id = nullable(text("an event's id"));
    let time = nullable(json!({"type": "string", "format": "date-time"}));
    let detail = object(&[
        ("event", event, true),
        ("inverse", patch, true),
        ("before", document.clone(), true),
        ("after", document.clone(), true),
        ("previous", id.clone(), true),
        ("next", id.clone(), true),
        ("hand", json!({"type": "boolean"}), true),
        ("undo", nullable(text("a command")), true),
        ("routes", nullable(json!({"type": "object", "description": "where it would go now, and why"})), true),
        ("owners", list(&link), true),
        ("around", nullable(around), true),
        ("deliveries", list(&delivery), true),
    ]);
    let about = [
        ("resource", json!({"type": "object"}), true),
        ("at", json!({"type": "string", "format": "date-time"}), true),
        ("exists", json!({"type": "boolean"}), true),
        ("event", id, true),
        ("first", time.clone(), true),
        ("last", time.clone(), true),
        ("since", time, true),
        ("changes", json!({"type": "integer", "description": "how many of them are known"}), true),
        ("certain", json!({"type": "boolean"}), true),
        ("doubt", nullable(doubt), true),
    ];
    let with = |more: (&'static str, Value, bool)| {
        let mut all = about.to_vec();
        all.push(more);
        object(&all)
    };
    let page = [
        number("limit", "rows of a page, 1,000 at most; 100 without it"),
        query("cursor", "`next` of the page before"),
        choice("order", &["desc", "asc"]),
        choice("full", &["true", "false"]),
    ];
    let at = [
        query("at", "a time, or an age such as 2h; without it, now"),
        query("event", "as the event with this id left it, in place of a time"),
    ];
    let from = [
        query("at", "begins with the change that made it what it was then; `order=asc`: with the one after it"),
        query("event", "the same with the event of this id"),
    ];
    let filtered = |more: &[Value]| filters().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>();
    let named: Vec<Value> =
        ["group", "version", "resource", "namespace", "name"].iter().map(|name| path(name)).collect();
    let of_object = |more: &[Value]| named.iter().chain(more).cloned().collect::<Vec<_>>();
    let listing = [
        query("kind", "kind, plural or short name"),
        query("namespace", "names or patterns"),
        query("name", "names or patterns"),
        number("limit", "objects of a page"),
        query("cursor", "`next` of the page before"),
    ];
    let mut paths = json!({
        "/api/v1/events": {"get": read("Changes, the newest first", &filtered(&page), &rows)},
        "/api/v1/events/{id}": {"get": read("One change", &[path("id")], &detail)},
        "/api/v1/density": {"get": read("Changes over time",
            &filtered(&[number("buckets", "how many; 120 without it")]), &density)},
        "/api/v1/facets": {"get": read("Values to filter by, with counts", &filtered(&[]), &facets)},
        "/api/v1/objects": {"get": read("Objects as they are now", &listing, &object(&[
            ("objects", list(&listed), true), ("next", text("a cursor"), false)]))},
        "/api/v1/silences": {
            "get": read("Silences that hold", &[], &object(&[("silences", list(&silence), true)])),
            "post": write("Make a silence", &[], Some(&wanted()), "201", &silence),
        },
        "/api/v1/silences/{id}": {"delete": write("End a silence", &[path("id")], None, "200", &silence)},
        "/api/v1/status": {"get": read("How informers, sinks and the ledger are", &[], &status())},
        "/api/v1/whoami": {"get": read("Who asks", &[], &object(&[
            ("auth", json!({"enum": ["none", "token"]}), true), ("user", nullable(text("a name")), true),
            ("may_silence", json!({"type": "boolean"}), true)]))},
        "/api/v1/openapi.json": {"get": read("This", &[], &json!({"type": "object"}))},
    });
    paths[OBJECT] =
        json!({"get": read("An object now or as it was", &of_object(&at), &with(("object", document, true)))});
    paths[format!("{OBJECT}/blame")] =
        json!({"get": read("Who set each line last", &of_object(&at), &with(("lines", list(&line), true)))});
    paths[format!("{OBJECT}/history")] =
        json!({"get": read("The changes of an object", &of_object(&[&page[..], &from[..]].concat()), &rows)});
    paths["/api/v1/stream"] = json!({"get": {
        "summary": "Changes as they happen", "parameters": filtered(&[
            number("after", "go on after this number; `Last-Event-ID` wins")]),
        "responses": {"200": {"description": "events `change` with a Row each; `behind` when some were left out",
            "content": {"text/event-stream": {"schema": {"type": "string"}}}}, "default": problem()}}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "kubediff", "version": env!("CARGO_PKG_VERSION"),
            "description": "What changed in a Kubernetes cluster, when, and who did it."},
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {"schemas": schemas.0.take_definitions(true),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    })
}

const DEFINITIONS: &str = "/components/schemas";

struct Schemas(SchemaGenerator);

impl Schemas {
    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }
}

fn filters() -> Vec<Value> {
    vec![
        query("kind", "kind, plural or short name, with a group where needed; `!` before a value excludes it"),
        query("namespace", "names or patterns with `*`; empty for cluster-scoped objects"),
        query("name", "names or patterns"),
        query("owner", "the root owner: Deployment/shop/web"),
        choice("type", &["created", "updated", "deleted"]),
        query("class", "classes of the event"),
        query("manager", "field managers or patterns"),
        choice("observed", &["live", "late", "audit"]),
        choice("hand", &["true", "false"]),
        query("q", "words of the summary or of changed fields"),
        query("since", "a time or an age; included"),
        query("until", "a time or an age; not included"),
    ]
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(fields: &[(&str, Value, bool)]) -> Value {
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = fields.iter().filter(|(.., required)| *required).map(|(name, ..)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// What [`super::status`] answers.
fn status() -> Value {
    let nullable = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
    let (flag, number, word) = (json!({"type": "boolean"}), json!({"type": "integer"}), json!({"type": "string"}));
    let time = json!({"type": "string", "format": "date-time"});
    let (maybe_word, maybe_time) = (nullable(word.clone()), nullable(time.clone()));
    let one_of = |words: &[&str]| json!({"enum": words});
    let informer = object(&[
        ("resource", word.clone(), true),
        ("kind", word.clone(), true),
        ("shortNames", list(&word), true),
        ("group", word.clone(), true),
        ("version", word.clone(), true),
        ("scope", text("a namespace; empty for all"), true),
        ("state", one_of(&["starting", "listing", "connecting", "live", "waiting", "not permitted"]), true),
        ("synced", flag.clone(), true),
        ("objects", nullable(number.clone()), true),
        ("since", maybe_time.clone(), true),
        ("reason", maybe_word.clone(), true),
        ("remedy", maybe_word.clone(), true),
        ("lastEvent", maybe_time.clone(), true),
        ("lastBookmark", maybe_time.clone(), true),
    ]);
    let sink = object(&[
        ("name", word.clone(), true),
        ("type", word.clone(), true),
        ("state", one_of(&["ok", "failing", "disabled"]), true),
        ("waiting", number.clone(), true),
        ("oldest", maybe_time.clone(), true),
        ("delivered", number.clone(), true),
        ("dead", number.clone(), true),
        ("reason", maybe_word.clone(), true),
        ("remedy", maybe_word.clone(), true),
        ("since", maybe_time.clone(), true),
        ("lastDelivered", maybe_time.clone(), true),
    ]);
    let ledger = object(&[
        ("bytes", number.clone(), true),
        ("events", number.clone(), true),
        ("oldest", maybe_time.clone(), true),
        ("newest", maybe_time, true),
        ("failing", maybe_word, true),
    ]);
    object(&[
        ("version", word.clone(), true),
        ("cluster", object(&[("name", word.clone(), true), ("uid", word, true)]), true),
        ("started", time.clone(), true),
        ("now", time, true),
        ("synced", flag.clone(), true),
        ("informers", list(&informer), true),
        ("sinks", list(&sink), true),
        ("ledger", nullable(ledger), true),
        ("silences", number, true),
        ("leader", nullable(flag), true),
    ])
}

fn wanted() -> Value {
    let patterns = text("a name or pattern; empty for all");
    object(&[
        ("namespace", patterns.clone(), false),
        ("kind", patterns.clone(), false),
        ("name", patterns, false),
        ("sinks", json!({"type": "array", "items": {"type": "string"}}), false),
        ("until", json!({"type": "string", "format": "date-time"}), false),
        ("for", text("1h, in place of until"), false),
        ("reason", text("why"), true),
    ])
}

fn query(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
}

fn number(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": "integer"}})
}

fn choice(name: &str, values: &[&str]) -> Value {
    json!({"name": name, "in": "query", "description": values.join(", "), "schema": {"type": "string"}})
}

fn path(name: &str) -> Value {
    let description = match name {
        "group" => "`core` for the empty one",
        "namespace" => "`-` for cluster-scoped objects",
        _ => "",
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"}})
}

fn read(summary: &str, parameters: &[Value], schema: &Value) -> Value {
    write(summary, parameters, None, "200", schema)
}

fn write(summary: &str, parameters: &[Value], body: Option<&Value>, status: &str, schema: &Value) -> Value {
    let mut operation = json!({"summary": summary, "parameters": parameters, "responses": {"default": problem()}});
    operation["responses"][status] =
        json!({"description": summary, "content": {"application/json": {"schema": schema}}});
    if let Some(body) = body {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    operation
}

fn problem() -> Value {
    let fields = ["code", "message", "remedy"].map(|name| (name, json!({"type": "string"}), true));
    let schema = object(&[("error", object(&fields), true)]);
    json!({"description": "what went wrong", "content": {"application/json": {"schema": schema}}})
}
